#include "core/exit_codes.h"
#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Cause;
using testing::HasSubstr;
using testing::SizeIs;

// One way for machine 1 to end, and what follows.
struct EndCase {
  const char* name;
  void (*happen)(Scene&);
  uint32_t replacements;
  uint32_t out_of_memory;
  const char* said;
};

class EveryEnd : public testing::TestWithParam<EndCase> {};

TEST_P(EveryEnd, IsReplacedAndChargedAsItShould) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  scene.Pass(minutes(5));
  scene.Running();
  GetParam().happen(scene);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  const core::JobStatus& next = *decision.intent;
  EXPECT_EQ(next.epoch, 2U);
  EXPECT_EQ(next.attempts.Of(0), 1U) << "survivors keep their pods";
  EXPECT_EQ(next.attempts.Of(1), 2U);
  EXPECT_EQ(next.attempts.Of(2), 1U);
  EXPECT_EQ(next.counters.replacements, GetParam().replacements);
  EXPECT_EQ(next.counters.out_of_memory, GetParam().out_of_memory);
  EXPECT_EQ(decision.replacements, 1);
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_THAT(decision.events[0].note, HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    Replacement, EveryEnd,
    testing::Values(
        EndCase{"killed", [](Scene& s) { s.machine(1).end = Killed(9); }, 1, 0, "signal 9"},
        EndCase{"exited", [](Scene& s) { s.machine(1).end = Exited(75); }, 1, 0, "code 75"},
        EndCase{"outOfMemory", [](Scene& s) { s.machine(1).end = OutOfMemory(); }, 0, 1,
                "memory limit"},
        EndCase{"drained",
                [](Scene& s) {
                  s.machine(1).leave_by = s.now.wall;
                  s.machine(1).end = Exited(143);
                },
                0, 0, "asked to leave"},
        EndCase{"toldToStopByItsOwnRank",
                [](Scene& s) {
                  s.machine(1).end = Exited(143);
                  s.machine(1).all_ended = true;
                },
                1, 0, "the machine was not asked to leave"},
        EndCase{"evicted", [](Scene& s) { s.machine(1).end = Evicted("low on memory"); }, 0, 0,
                "low on memory"},
        EndCase{"preempted",
                [](Scene& s) {
                  s.machine(1).end = Killed(9);
                  s.machine(1).end->asked = true;
                  s.machine(1).end->asked_for = "PreemptionByScheduler";
                },
                0, 0, "PreemptionByScheduler"},
        EndCase{"rejected", [](Scene& s) { s.machine(1).end = Misaligned(""); }, 1, 0,
                "TopologyAffinityError"},
        EndCase{"podGone", [](Scene& s) { s.RemoveMachine(1); }, 1, 0, "deleted"},
        EndCase{"nodeGone", [](Scene& s) { s.machine(1).node_state = NodeState::kGone; }, 1, 0,
                "node node-1 is gone"},
        EndCase{"outOfService",
                [](Scene& s) { s.machine(1).node_state = NodeState::kOutOfService; }, 1, 0,
                "out of service"},
        EndCase{"silent",
                [](Scene& s) {
                  s.Report(core::CoordinatorPhase::kStopping).machines[1].silent_for = seconds(15);
                },
                1, 0, "has not heard from it for 15 s"},
        EndCase{"rule",
                [](Scene& s) {
                  s.Report(core::CoordinatorPhase::kStopping).machines[1].replace = true;
                },
                1, 0, "failurePolicy"},
        EndCase{"verdictOfAFencedCoordinator",
                [](Scene& s) {
                  // Machine 0 has been replaced since: what the old one judged is void.
                  s.machine(1).end = Verdict(78, {0, 3}, 1, 1);
                },
                0, 0, "outdated verdict"}),
    [](const auto& info) { return info.param.name; });

// Machine 0's agent, which found generations of later attempts than its own.
MachineEnd NeedsEpoch(uint32_t needed) {
  core::Termination left;
  left.exit_code = core::kExitReplace;
  left.attempt = 1;
  left.needs_epoch = needed;
  left.reason = "fenced: attempt 9 of machine 0 has begun generations already";
  MachineEnd end = Exited(core::kExitReplace);
  end.termination = core::ToJson(left);
  return end;
}

TEST(Replacement, AStatusThatWentBackIsRaisedAboveTheAttemptsThatMachine0Found) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(0).end = NeedsEpoch(10);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->epoch, 10U);
  EXPECT_EQ(decision.intent->attempts.Of(0), 10U);
  EXPECT_EQ(decision.intent->attempts.Of(1), 1U) << "survivors keep their pods";
  EXPECT_EQ(decision.intent->counters.replacements, 0U) << "it is not a machine's fault";
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_TRUE(decision.events[0].warning);
  EXPECT_THAT(decision.events[0].note, HasSubstr("status has gone back"));
  EXPECT_THAT(decision.events[0].note, HasSubstr("attempt 9 of machine 0 has begun generations"));
}

TEST(Replacement, WhoSaysAgainThatStatusWentBackIsCharged) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  for (const uint32_t charged : {0U, 1U, 2U}) {
    scene.machine(0).end = NeedsEpoch(scene.status().epoch + 5);
    const Decision decision = scene.Decide();
    ASSERT_TRUE(decision.intent);
    EXPECT_EQ(decision.intent->counters.replacements, charged);
    scene.status() = *decision.intent;
    scene.AddMachine(0, scene.status().epoch);
  }
}

TEST(Replacement, AMachinesNextAttemptIsAboveThoseThatTheCoordinatorKnows) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(core::CoordinatorPhase::kGathering).machines[1].attempt = 9;
  scene.machine(1).end = Killed(9);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(1), 10U);
}

TEST(Replacement, AnEpochThatCannotHaveBeenReachedIsNotRaisedTo) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(0).end = NeedsEpoch(2'000'000'000);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->epoch, 2U);
  EXPECT_EQ(decision.intent->counters.replacements, 1U);
}

TEST(Replacement, WhyAMachineWasToldToLeaveMayComeAfterItsEnd) {
  for (const bool told : {true, false}) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    scene.machine(1).end = Exited(143);
    EXPECT_FALSE(scene.Decide().intent);
    scene.Pass(seconds(5));
    if (told) scene.machine(1).end = Evicted("low on memory");
    const Decision decision = scene.Decide();
    ASSERT_TRUE(decision.intent);
    EXPECT_EQ(decision.intent->attempts.Of(1), 2U);
    EXPECT_EQ(decision.intent->counters.replacements, told ? 0U : 1U);
  }
}

TEST(Replacement, APodThatWasGivenTimeToLeaveCostsNothingThoughItIsGoneAtOnce) {
  for (const bool asked : {true, false}) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    MachineObservation last = scene.machine(1);
    if (asked) last.leave_by = scene.now.wall;
    last.end = Exited(137);
    scene.RemoveMachine(1);
    scene.notes().vanished[{1, 1}] = last;
    const Decision decision = scene.Decide();
    ASSERT_TRUE(decision.intent);
    EXPECT_EQ(decision.intent->attempts.Of(1), 2U);
    EXPECT_EQ(decision.intent->counters.replacements, asked ? 0U : 1U);
  }
}

TEST(Replacement, Machine0IsLostWhenAMemberHasNotHeardOfItForL) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.snapshot().coordinator.reset();
  scene.MemberReport(1, seconds(14));
  EXPECT_FALSE(scene.Decide().intent);
  scene.MemberReport(1, seconds(15));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(0), 2U);
  EXPECT_EQ(decision.intent->attempts.Of(1), 1U);
}

// The member is asked while machine 0's answer is merely late; it may be the one that is cut off.
TEST(Replacement, AMachine0ThatHasAnsweredWithinLIsNotLost) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Running();
  const Time answered = scene.now.boot;
  scene.Pass(seconds(8));
  scene.MemberReport(1, seconds(20));
  const Decision decision = scene.Decide();
  EXPECT_FALSE(decision.intent);
  EXPECT_EQ(decision.wake, answered + seconds(15));
  scene.Pass(seconds(7));
  const Decision later = scene.Decide();
  ASSERT_TRUE(later.intent);
  EXPECT_EQ(later.intent->attempts.Of(0), 2U);
}

TEST(Replacement, Machine0IsReplacedWhenItAsksForItself) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(core::CoordinatorPhase::kGathering).machines[0].replace = true;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(0), 2U);
}

TEST(Replacement, AMemberThatHasYetToHearOfMachine0IsNoWitness) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.snapshot().coordinator.reset();
  scene.MemberReport(1, seconds(0)).state = core::GangMachineState::kLost;
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Replacement, AReportOnAnotherAttemptIsIgnored) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  auto& seen = scene.Report(core::CoordinatorPhase::kGathering).machines[1];
  seen.silent_for = seconds(100);
  seen.attempt = 7;
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Replacement, AWitnessThatWasReplacedIsNone) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  scene.Report(core::CoordinatorPhase::kStopping).machines[2].silent_for = seconds(20);
  scene.machine(0).end = Killed(9);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(0), 2U);
  EXPECT_EQ(decision.intent->attempts.Of(2), 1U) << "it was machine 0 that was cut off";
  // Nor is it one later: its last word stands in the record for a while.
  scene.Make(scene.Settle());
  scene.Make(scene.Settle());
  EXPECT_EQ(scene.status().attempts.Of(2), 1U);
  EXPECT_EQ(scene.status().epoch, 2U);
}

TEST(Replacement, AMemberThatWasReplacedAccusesNobody) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.snapshot().coordinator.reset();
  scene.MemberReport(1, seconds(20));
  scene.snapshot().member->status.attempt = 7;
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Replacement, AnOldReportIsNoEvidence) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(core::CoordinatorPhase::kStopping).machines[1].silent_for = seconds(20);
  scene.snapshot().coordinator->at -= minutes(5);
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Replacement, NoAnswerFromAnybodyIsNoEvidence) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.snapshot().coordinator.reset();
  scene.Pass(hours(1));
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Replacement, ANodeThatIsNotReadyIsNoEvidence) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).node_state = NodeState::kUnreachable;
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Replacement, APodThatNeverStartedOnAnUnreachableNodeIsReplacedUnlessItsAgentHasJoined) {
  for (const bool joined : {false, true}) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    scene.machine(1).stage = Stage::kPlaced;
    const uint32_t attempt = joined ? 1 : 0;  // 0: no word of it yet
    scene.Report(core::CoordinatorPhase::kGathering).machines[1].attempt = attempt;
    EXPECT_FALSE(scene.Decide().intent);
    scene.machine(1).node_state = NodeState::kUnreachable;
    const Decision decision = scene.Decide();
    EXPECT_EQ(decision.intent.has_value(), !joined);
    if (joined) continue;
    EXPECT_EQ(decision.intent->attempts.Of(0), 1U);
    EXPECT_EQ(decision.intent->attempts.Of(1), 2U);
    EXPECT_EQ(decision.intent->counters.replacements, 1U);
  }
}

// A scheduler may send it to where the last one died.
TEST(Replacement, AMachine0ThatNeverStartedOnAnUnreachableNodeIsReplacedThoughTheLastOneWasHeard) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.RemoveMachine(0);
  scene.Make(scene.Settle());
  ASSERT_EQ(scene.status().attempts.Of(0), 2U);
  scene.machine(0).stage = Stage::kPlaced;
  EXPECT_FALSE(scene.Decide().intent);
  scene.machine(0).node_state = NodeState::kUnreachable;
  ASSERT_EQ(scene.snapshot().coordinator->status.attempt, 1U);
  scene.Settle();
  EXPECT_EQ(scene.status().attempts.Of(0), 3U);
}

TEST(Replacement, AMachineThatDiedWithTheMachine0ThatKnewItIsLostOnceTheNextHasListenedForL) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).node_state = NodeState::kUnreachable;
  for (const Duration age : {seconds(14), seconds(15)}) {
    scene.machine(0).started = scene.now.wall - age;
    scene.Report(core::CoordinatorPhase::kGathering).machines[1].attempt = 0;
    EXPECT_EQ(scene.Decide().intent.has_value(), age == seconds(15));
  }
  scene.Report(core::CoordinatorPhase::kGathering);
  EXPECT_FALSE(scene.Decide().intent) << "it has said HELLO";
}

TEST(Replacement, SeveralLostMachinesShareOneEpoch) {
  Scene scene(MakeJob("gpt").Machines(4));
  scene.Run();
  scene.machine(1).end = Killed(9);
  scene.machine(3).end = Killed(9);
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->epoch, 2U);
  EXPECT_EQ(decision.intent->attempts.Of(1), 2U);
  EXPECT_EQ(decision.intent->attempts.Of(3), 2U);
  EXPECT_EQ(decision.intent->counters.replacements, 2U);
}

TEST(Replacement, TheRateLimiterHoldsBackTheRestAndSaysSo) {
  Scene scene(MakeJob("gpt").Machines(4));
  scene.Run();
  for (int i = 1; i < 4; ++i) scene.machine(i).end = Killed(9);
  scene.snapshot().replacements_allowed = 1;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.replacements, 1);
  scene.status() = *decision.intent;
  scene.snapshot().replacements_allowed = 0;
  const Decision later = scene.Decide();
  ASSERT_TRUE(later.status);
  EXPECT_THAT(later.status->reason, HasSubstr("2 lost machines wait"));
  EXPECT_LE(later.wake, scene.now.boot + seconds(5));
}

// How long the operator waits before it makes the next pod.
Duration WaitForPod(Scene& scene) {
  Duration waited{};
  Decision decision = scene.Settle();
  while (All<StartMachine>(decision).empty() && waited < minutes(2)) {
    scene.Make(decision);
    scene.Pass(seconds(1));
    waited += seconds(1);
    decision = scene.Settle();
  }
  scene.Make(decision);
  return waited;
}

TEST(Replacement, TheFirstReplacementComesAtOnceAndLaterQuickOnesWait) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  std::vector<Duration> waits;
  for (int i = 0; i < 4; ++i) {
    scene.Pass(seconds(2));
    scene.machine(1).end = Killed(9);
    waits.push_back(WaitForPod(scene));
  }
  EXPECT_THAT(waits, testing::ElementsAre(seconds(0), seconds(1), seconds(5), seconds(30)));
}

TEST(Replacement, ANodeThatEvictsEveryPodAtOnceIsNotAskedInAHurry) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Duration waited{};
  for (int i = 0; i < 3; ++i) {
    scene.machine(1).end = Evicted("");
    waited += WaitForPod(scene);
  }
  EXPECT_EQ(waited, seconds(6)) << "0, 1 and 5 s";
  EXPECT_EQ(scene.status().counters.replacements, 0U);
}

TEST(Replacement, AfterResetAfterOfHealthTheBudgetIsWhole) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = Killed(9);
  scene.Make(scene.Settle());
  scene.Running();
  scene.Make(scene.Settle());
  EXPECT_EQ(scene.status().counters.infrastructure_used(), 1);
  scene.Pass(minutes(61));
  scene.Running();
  scene.Settle();
  EXPECT_EQ(scene.status().counters.infrastructure_used(), 0);
  EXPECT_EQ(scene.status().counters.replacements, 1U) << "counters never fall";
  EXPECT_TRUE(WritesNothing(scene.Decide()));
}

TEST(Replacement, ALastFailureIsRecorded) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = OutOfMemory();
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent && decision.intent->last_failure);
  EXPECT_EQ(decision.intent->last_failure->failure.cause, Cause::kOutOfMemory);
  EXPECT_EQ(decision.intent->last_failure->failure.machine, 1);
  EXPECT_EQ(decision.intent->last_failure->node, "node-1");
}

}  // namespace
}  // namespace lockstep::control
