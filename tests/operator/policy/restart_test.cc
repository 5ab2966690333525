#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;

void Ask(Scene& scene, const std::string& id, bool at_commit = false) {
  scene.spec().restart_request = core::RestartRequest{id, "new rate", "alice", at_commit};
}

TEST(Restart, IsRecordedBeforeMachine0HearsOfIt) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Ask(scene, "a");
  const Decision recorded = scene.Decide();
  ASSERT_TRUE(recorded.intent);
  ASSERT_TRUE(recorded.intent->restart);
  EXPECT_EQ(recorded.intent->restart->attempt, 1U);
  EXPECT_FALSE(recorded.intent->restart->done);
  EXPECT_FALSE(recorded.desired);
  ASSERT_EQ(recorded.events.size(), 1U);
  EXPECT_EQ(recorded.events[0].reason, "RestartRequested");
  EXPECT_EQ(recorded.events[0].note, "a restart was requested by alice: new rate");
  scene.status() = *recorded.intent;
  const Decision told = scene.Decide();
  ASSERT_TRUE(told.desired && told.desired->restart);
  EXPECT_EQ(told.desired->restart->id, "a");
  EXPECT_EQ(told.desired->restart->words, "alice: new rate");
  EXPECT_FALSE(told.desired->stop) << "its pods stay";
}

TEST(Restart, AnotherOperatorGoesOnWithTheRequestAndDoesItOnce) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Ask(scene, "a");
  scene.Settle();
  scene.ForgetAll();
  EXPECT_TRUE(scene.Decide().desired->restart);
  scene.Report(CoordinatorPhase::kRunning).restarted = "a";
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  ASSERT_TRUE(scene.status().restart->done);
  scene.ForgetAll();
  EXPECT_FALSE(scene.Decide().desired->restart);
}

TEST(Restart, ALaterMachine0HasDoneIt) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Ask(scene, "a");
  scene.Settle();
  scene.status().attempts.Set(0, 2);
  scene.AddMachine(0, 2);
  scene.Running();
  scene.Pass(seconds(2));
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  EXPECT_TRUE(scene.status().restart->done);
}

TEST(Restart, OfAJobWithoutPodsIsDoneByItsNextStart) {
  Scene scene(MakeJob("gpt").Machines(2).Suspended());
  Ask(scene, "a");
  scene.Settle();
  ASSERT_TRUE(scene.status().restart);
  EXPECT_TRUE(scene.status().restart->done);
  scene.spec().suspend = false;
  scene.Run();
  EXPECT_FALSE(scene.Decide().desired->restart);
}

TEST(Restart, OneThatWaitsForACommitNeverDelaysAnEarlierOne) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Ask(scene, "a");
  scene.Settle();
  Ask(scene, "b", true);
  scene.Settle();
  EXPECT_EQ(scene.status().restart->id, "b");
  EXPECT_FALSE(scene.status().restart->at_commit);
}

TEST(Restart, ARequestThatIsWithdrawnIsForgotten) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Ask(scene, "a", true);
  scene.Settle();
  scene.spec().restart_request.reset();
  EXPECT_FALSE(scene.Decide().desired->restart);
  scene.Pass(seconds(2));
  scene.Settle();
  EXPECT_FALSE(scene.status().restart);
}

TEST(Restart, OfAJobThatHasEndedChangesNothing) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  scene.machine(0).end = Verdict(0, {1, 1}, 0, 1);
  scene.Settle();
  Ask(scene, "a");
  scene.Settle();
  EXPECT_FALSE(scene.status().restart);
}

TEST(Restart, HistorySaysWhoAskedAndWhy) {
  Scene scene(MakeJob("gpt").Machines(1));
  scene.Run();
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  gang.generation = {1, 2};
  core::GenerationRecord ended;
  ended.generation = {1, 1};
  ended.announced = ended.spawned = seconds(1);
  ended.stop_sent = ended.ended = seconds(2);
  ended.stop_reason = core::StopReason::kRestarted;
  ended.failure.cause = core::Cause::kStopRequested;
  ended.failure.message = "restarted on request of alice: new rate";
  gang.history = {ended};
  scene.Pass(seconds(2));
  scene.Settle();
  ASSERT_EQ(scene.status().history.size(), 1U);
  EXPECT_EQ(scene.status().history[0].reason, "restarted on request of alice: new rate");
}

}  // namespace
}  // namespace lockstep::control
