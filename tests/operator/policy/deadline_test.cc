#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::JobState;
using testing::SizeIs;

core::TrainingJob JobOf(int64_t deadline_seconds) {
  return MakeJob("gpt").Machines(2).With(
      [=](core::Spec& spec) { spec.active_deadline_seconds = deadline_seconds; });
}

TEST(Deadline, TheGangIsStoppedAndTheJobFails) {
  Scene scene(JobOf(60));
  scene.Run();
  scene.Pass(seconds(59));
  const Decision before = scene.Decide();
  EXPECT_FALSE(before.desired->stop);
  EXPECT_EQ(before.wake, scene.now.boot + seconds(1));
  scene.Pass(seconds(1));
  const Decision stop = scene.Decide();
  ASSERT_TRUE(stop.desired && stop.desired->stop);
  EXPECT_EQ(stop.desired->stop->reason, core::StopReason::kDeadline);
  scene.snapshot().desired_state_accepted = true;
  scene.Report(core::CoordinatorPhase::kHeld);
  const Decision end = scene.Decide();
  ASSERT_TRUE(end.intent && end.intent->verdict);
  EXPECT_EQ(end.intent->state, JobState::kFailed);
  EXPECT_EQ(end.intent->verdict->cause, core::Cause::kStopRequested);
  scene.status() = *end.intent;
  EXPECT_THAT(All<StopMachine>(scene.Decide()), SizeIs(2)) << "nobody told the agents";
}

TEST(Deadline, AVerdictThatComesFirstCounts) {
  Scene scene(JobOf(60));
  scene.Run();
  scene.Pass(minutes(2));
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1);
  EXPECT_EQ(scene.Decide().intent->state, JobState::kSucceeded);
}

TEST(Deadline, TheTimeOfASuspensionDoesNotCount) {
  Scene scene(JobOf(60));
  scene.Run();
  scene.spec().suspend = true;
  scene.Settle();
  scene.Pass(seconds(2));
  scene.Settle();
  scene.spec().suspend = false;  // before the pods are gone
  scene.Pass(hours(1));
  scene.RemoveMachines();
  scene.Settle();
  EXPECT_EQ(scene.status().state, JobState::kPending);
  EXPECT_EQ(scene.status().timings.created, scene.now.wall);
}

TEST(Deadline, AJobThatWaitsForItsPodsToGoFailsAsWell) {
  Scene scene(JobOf(60));
  scene.Run();
  scene.spec().num_machines = 3;
  scene.Settle();
  scene.Pass(seconds(2));
  scene.Settle();
  scene.Pass(minutes(2));
  scene.Settle();
  EXPECT_EQ(scene.status().state, JobState::kFailed);
}

}  // namespace
}  // namespace lockstep::control
