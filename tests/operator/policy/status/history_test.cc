#include "core/exit_codes.h"
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

TEST(History, CountsNoRestartForAGenerationThatIsOnlyPrepared) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  auto lost = Died(Generation({1, 1}, seconds(0)), seconds(20), 0);
  lost.failure.cause = core::Cause::kMachineLost;
  auto stopped = Died(Generation({1, 2}, seconds(21)), seconds(22), 0);
  stopped.failure.cause = core::Cause::kStopRequested;
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kPreparing);
  gang.generation = {1, 3};
  gang.counters = {.generations = 2, .stops = 1};
  gang.history = {lost, stopped};
  scene.Pass(seconds(1));
  scene.Settle();
  EXPECT_EQ(scene.status().restarts, (core::RestartCounts{.total = 1, .infrastructure = 1}));
  EXPECT_EQ(scene.status().gang_generation, (core::Generation{1, 2}));
  core::GangStatus& again = scene.Report(CoordinatorPhase::kRunning);
  again.generation = {1, 3};
  again.counters = {.generations = 3, .stops = 1};
  again.history = {lost, stopped, Generation({1, 3}, seconds(23))};
  scene.Pass(seconds(1));
  scene.Settle();
  EXPECT_EQ(scene.status().restarts,
            (core::RestartCounts{.total = 2, .infrastructure = 1, .stopped = 1}));
}

TEST(History, CountsARestartOnceItWasMadeByWhatEndedTheGenerationBefore) {
  const struct {
    core::Cause cause;
    core::Counters failed;  // as coordinator and operator count it
    core::RestartCounts restarts;
  } cases[] = {
      {core::Cause::kProcessExit, {.process_failures = 1}, {.total = 1, .application = 1}},
      {core::Cause::kMachineLost,
       {.replacements = 2, .leases_expired = 1},
       {.total = 1, .infrastructure = 1}},
      {core::Cause::kStopRequested, {.stops = 1}, {.total = 1, .stopped = 1}},
  };
  for (const auto& each : cases) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    auto first = Died(Generation({1, 1}, seconds(0)), seconds(20), 0);
    first.failure.cause = each.cause;
    core::Counters counters = each.failed;
    counters.generations = 1;
    core::GangStatus& gang = scene.Report(CoordinatorPhase::kBackoff);
    gang.generation = {1, 1};
    gang.counters = counters;
    gang.history = {first};
    scene.Pass(seconds(1));
    scene.Settle();
    EXPECT_EQ(scene.status().restarts, core::RestartCounts{}) << core::ToString(each.cause);
    core::GangStatus& again = scene.Report(CoordinatorPhase::kRunning);
    again.generation = {1, 2};
    again.counters = counters;
    again.counters.generations = 2;
    again.history = {first, Generation({1, 2}, seconds(21))};
    scene.Pass(seconds(1));
    scene.Settle();
    EXPECT_EQ(scene.status().restarts, each.restarts) << core::ToString(each.cause);
  }
}

// A container's start is told in whole seconds, so its agent's times may seem too early.
TEST(History, TheFirstStepIsNeverBeforeTheStart) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  auto first = Generation({1, 1}, seconds(0));
  first.first_step = milliseconds(1);
  gang.history = {first};
  scene.machine(0).started = *scene.machine(0).started - milliseconds(900);
  scene.Pass(seconds(1));
  scene.Settle();
  ASSERT_TRUE(scene.status().timings.first_step);
  EXPECT_EQ(scene.status().timings.first_step, scene.status().timings.started);
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

// A gang whose ranks crash at once ends between two questions of the operator.
TEST(History, LacksNoGenerationThatEndedBeforeMachine0WasAsked) {
  for (const int messenger : {0, 1}) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    const WallTime born = *scene.machine(0).started;
    scene.Pass(seconds(9));
    core::Termination told;
    told.failure.cause = core::Cause::kEarlyCrash;
    told.counters = core::Counters{.generations = 2, .process_failures = 2};
    told.ended = {Died(Generation({1, 1}, seconds(1)), seconds(2), 0),
                  Died(Generation({1, 2}, seconds(3)), seconds(4), 0)};
    told.ended.back().failure.cause = core::Cause::kEarlyCrash;
    scene.machine(messenger).end = Verdict(70, {1, 2}, static_cast<uint32_t>(messenger), 1, told);
    scene.Settle();
    const core::JobStatus& status = scene.status();
    ASSERT_THAT(status.history, SizeIs(2)) << messenger;
    EXPECT_EQ(status.history[0].generation, (core::Generation{1, 1}));
    EXPECT_EQ(status.history[0].cause, core::Cause::kProcessExit);
    EXPECT_EQ(status.history[0].detected, born + seconds(2));
    EXPECT_EQ(status.history[0].respawned, born + seconds(4));
    EXPECT_EQ(status.history[1].cause, core::Cause::kEarlyCrash);
    EXPECT_EQ(status.history[1].detected, born + seconds(4));
    EXPECT_EQ(status.restarts.application, 1);
    EXPECT_EQ(status.ledger->goodput, core::kUnknownGoodput);
  }
}

TEST(History, TakesNoTimesOfAnEarlierMachine0FromALastMessage) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  core::Termination told;
  told.failure.cause = core::Cause::kProcessExit;
  told.ended = {Died(Generation({0, 7}, seconds(1)), seconds(2), 0)};
  scene.machine(1).end = Verdict(70, {1, 1}, 1, 1, told);
  scene.Settle();
  ASSERT_THAT(scene.status().history, SizeIs(1));
  EXPECT_EQ(scene.status().history[0].generation, (core::Generation{1, 1}));
}

TEST(History, OfALostMachine0HasTheGenerationsThatItsLastMessageNames) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(CoordinatorPhase::kRunning).generation = {1, 1};
  scene.Pass(seconds(1));
  scene.Settle();
  core::Termination told;
  told.generation = {1, 2};
  told.ended = {Died(Generation({1, 1}, seconds(0)), seconds(2), 0),
                Died(Generation({1, 2}, seconds(3)), seconds(4), 0)};
  MachineEnd end;
  end.agent_ran = true;
  end.exit_code = core::kExitReplace;
  end.termination = ToJson(told);
  scene.machine(0).end = end;
  scene.Pass(seconds(9));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  ASSERT_THAT(decision.intent->history, SizeIs(2));
  EXPECT_EQ(decision.intent->history[0].cause, core::Cause::kProcessExit);
  EXPECT_EQ(decision.intent->history[1].generation, (core::Generation{1, 2}));
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
