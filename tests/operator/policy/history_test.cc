#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;
using testing::SizeIs;

core::GangStatus::GenerationStatus Generation(core::Generation generation, Duration announced) {
  core::GangStatus::GenerationStatus status;
  status.generation = generation;
  status.announced = announced;
  status.spawned = announced + seconds(1);
  return status;
}

core::GangStatus::GenerationStatus Died(core::GangStatus::GenerationStatus status, Duration at,
                                        int64_t last_step) {
  status.died = at;
  status.ended = at + milliseconds(10);
  status.last_step = last_step;
  status.failure.cause = core::Cause::kProcessExit;
  status.failure.machine = 1;
  return status;
}

TEST(History, SaysWhenTheNextGenerationRanAndWhichStepsItDoesAgain) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  const WallTime born = *scene.machine(0).started;
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  auto next = Generation({1, 2}, seconds(21));
  next.first_step = seconds(25);
  next.resumed_at = 31;
  gang.generation = {1, 2};
  gang.history = {Died(Generation({1, 1}, seconds(0)), seconds(20), 36), next};
  scene.Pass(seconds(1));
  scene.Settle();
  ASSERT_THAT(scene.status().history, SizeIs(1));
  const core::RestartRecord& record = scene.status().history.front();
  EXPECT_EQ(record.cause, core::Cause::kProcessExit);
  EXPECT_EQ(record.detected, born + seconds(20));
  EXPECT_EQ(record.respawned, born + seconds(22));
  EXPECT_EQ(record.first_step, born + seconds(25));
  EXPECT_EQ(record.lost_steps, 6);
}

TEST(History, KnowsNothingOfStepsWhereProcessesReportNone) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  gang.generation = {1, 2};
  gang.history = {Died(Generation({1, 1}, seconds(0)), seconds(20), 0),
                  Generation({1, 2}, seconds(21))};
  scene.Pass(seconds(1));
  scene.Settle();
  ASSERT_THAT(scene.status().history, SizeIs(1));
  EXPECT_FALSE(scene.status().history.front().lost_steps.has_value());
}

TEST(History, LeavesOutAGenerationThatEndedWell) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  gang.generation = {1, 1};
  gang.history = {Generation({1, 1}, seconds(0))};
  gang.history.front().ended = seconds(20);
  scene.Pass(seconds(1));
  scene.Settle();
  EXPECT_THAT(scene.status().history, SizeIs(0));
  gang.history.front().stop_reason = core::StopReason::kSuspended;
  scene.Pass(seconds(1));
  scene.Settle();
  ASSERT_THAT(scene.status().history, SizeIs(1));
  EXPECT_EQ(scene.status().history.front().cause, core::Cause::kStopRequested);
}

TEST(History, GoesOnOverTheLossOfMachine0) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::RankProgress progress;
  progress.step = 40;
  core::GangStatus& before = scene.Report(CoordinatorPhase::kRunning);
  before.generation = {1, 1};
  before.progress = {progress};
  before.history = {Generation({1, 1}, seconds(0))};
  scene.Pass(seconds(1));
  scene.Settle();
  scene.machine(0).end = Killed(9);
  scene.machine(0).all_ended = true;
  const WallTime lost = scene.now.wall;
  scene.Make(scene.Settle());
  ASSERT_THAT(scene.status().history, SizeIs(1));
  EXPECT_EQ(scene.status().history.front().cause, core::Cause::kMachineLost);
  EXPECT_EQ(scene.status().history.front().machine, 0);
  EXPECT_EQ(scene.status().history.front().detected, lost);

  scene.Pass(seconds(5));
  core::GangStatus& after = scene.Report(CoordinatorPhase::kRunning);
  auto next = Generation({2, 1}, seconds(1));
  next.resumed_at = 31;
  after.generation = {2, 1};
  after.history = {next};
  scene.Make(scene.Settle());
  ASSERT_THAT(scene.status().history, SizeIs(1));
  EXPECT_EQ(scene.status().history.front().respawned, *scene.machine(0).started + seconds(2));
  EXPECT_EQ(scene.status().history.front().lost_steps, 10);
}

TEST(History, CountsTheReplacementsOfEachMachine) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  for (int times = 1; times <= 2; ++times) {
    scene.Pass(minutes(2));
    scene.machine(1).end = Killed(9);
    scene.machine(1).all_ended = true;
    scene.Make(scene.Settle());
    scene.Running();
    scene.Make(scene.Settle());
    for (const core::MachineStatus& machine : scene.status().machine_statuses) {
      EXPECT_EQ(machine.replacements, machine.index == 1 ? times : 0) << machine.index;
    }
  }
}

}  // namespace
}  // namespace lockstep::control
