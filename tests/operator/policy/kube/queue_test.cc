#include "operator/policy/facts/queue.h"

#include <gmock/gmock.h>

#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Condition;
using core::JobState;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class QueueTest : public testing::Test {
 protected:
  QueueTest() {
    scene_.snapshot().queue =
        QueueSeen{.queues = Queues::kThere, .name = "lq", .prebuilt = {}, .workload = {}};
  }

  QueueSeen& queue() { return *scene_.snapshot().queue; }
  WorkloadSeen& workload() { return *queue().workload; }

  void Queue() {
    WorkloadSeen seen;
    seen.name = "trainingjob-gpt-1b9d6";
    seen.uid = "uid-workload";
    seen.version = "7";
    seen.owned = true;
    seen.queue = "lq";
    seen.count = 2;
    queue().workload = seen;
  }
  void Admit() {
    workload().waits = workload().evicted = false;
    workload().admitted = workload().holds_quota = true;
    workload().cluster_queue = "cq";
    workload().flavors = {{"cpu", "a3"}};
    workload().reason = "Admitted";
  }
  void Evict() {
    workload().evicted = true;
    workload().reason = "Preempted";
    workload().message = "Preempted to accommodate a workload";
  }
  // On the manager of MultiKueue.
  void EvictElsewhere() {
    scene_.spec().managed_by = kMultiKueue;
    Queue();
    Admit();
    Evict();
    workload().evicted_at = scene_.now.wall;
  }
  void Refuse() {
    workload().waits = true;
    workload().reason = "Pending";
    workload().message = "insufficient unused quota for cpu in flavor a3, 2 more needed";
  }
  // A gang that runs, of which Kueue was told.
  void Run() {
    Queue();
    Admit();
    for (int i = 0; i < 3; ++i) scene_.Make(scene_.Settle());
    scene_.Running();
    scene_.Make(scene_.Settle());
    workload().pods_ready = true;
    scene_.Settle();
  }
  // Until the gang's pods are gone.
  void LetGo() {
    scene_.Settle();
    scene_.Pass(seconds(2));
    scene_.Make(scene_.Settle());
    scene_.RemoveMachines();
  }
  const Condition* Admitted() {
    return core::FindCondition(scene_.status().conditions, "Admitted");
  }

  Scene scene_{MakeJob("gpt").Machines(2)};
};

TEST_F(QueueTest, AJobWithAQueueMakesItsWorkloadAndNothingElse) {
  scene_.spec().priority_class_name = "train";
  scene_.spec().spare_machines = 1;
  const Decision decision = scene_.Decide();
  EXPECT_FALSE(decision.intent);
  ASSERT_THAT(decision.actions, SizeIs(1));
  const auto& make = std::get<MakeWorkload>(decision.actions[0]);
  EXPECT_EQ(make.pods, 3);
  EXPECT_EQ(make.priority_class, "train");
  EXPECT_FALSE(make.of_queues);
  ASSERT_TRUE(decision.status);
  EXPECT_EQ(decision.status->state, JobState::kQueued);
}

TEST_F(QueueTest, ThePriorityClassOfQueuesGoesBeforeThePods) {
  core::TrainingJob job = MakeJob("gpt").Machines(2);
  job.spec.priority_class_name = "train";
  job.metadata.labels[kPriorityLabel] = "high";
  Scene scene(job);
  scene.snapshot().queue =
      QueueSeen{.queues = Queues::kThere, .name = "lq", .prebuilt = {}, .workload = {}};
  const auto made = All<MakeWorkload>(scene.Decide());
  ASSERT_THAT(made, SizeIs(1));
  EXPECT_EQ(made[0].priority_class, "high");
  EXPECT_TRUE(made[0].of_queues);
}

TEST_F(QueueTest, NoPodIsMadeBeforeAdmissionAndKueuesWordsAreTold) {
  Queue();
  Refuse();
  EXPECT_THAT(scene_.Settle().actions, IsEmpty());
  EXPECT_EQ(scene_.status().state, JobState::kQueued);
  EXPECT_THAT(scene_.status().reason, HasSubstr("queue lq: insufficient unused quota"));
  ASSERT_NE(Admitted(), nullptr);
  EXPECT_EQ(Admitted()->status, Condition::Value::kFalse);
  EXPECT_EQ(Admitted()->message, workload().message);
  EXPECT_EQ(scene_.status().queue->workload, workload().name);
  EXPECT_EQ(scene_.status().epoch, 0U);
}

TEST_F(QueueTest, QuotaThatWaitsForAdmissionChecksIsNoAdmission) {
  Queue();
  workload().holds_quota = true;
  EXPECT_FALSE(scene_.Decide().intent);
}

TEST_F(QueueTest, AnAdmittedJobRunsAndKueueHearsOfReadyPods) {
  Queue();
  Admit();
  for (int i = 0; i < 3; ++i) scene_.Make(scene_.Settle());
  scene_.Running();
  const auto told = All<TellWorkload>(scene_.Settle());
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].type, "PodsReady");
  EXPECT_TRUE(told[0].holds);
  EXPECT_EQ(told[0].reason, "Started");
  workload().pods_ready = true;
  EXPECT_THAT(All<TellWorkload>(scene_.Settle()), IsEmpty());
  EXPECT_EQ(Admitted()->status, Condition::Value::kTrue);
  EXPECT_EQ(scene_.status().queue->cluster_queue, "cq");
}

TEST_F(QueueTest, AReplacementIsARecoveryWithinTheSameAdmission) {
  Run();
  scene_.machine(1).ready = false;
  auto told = All<TellWorkload>(scene_.Decide());
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_FALSE(told[0].holds);
  EXPECT_EQ(told[0].reason, "WaitForRecovery");
  workload().pods_ready = false;
  workload().recovers = true;
  scene_.machine(1).ready = true;
  told = All<TellWorkload>(scene_.Decide());
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].reason, "Recovered");
}

TEST_F(QueueTest, AnEvictedGangIsStoppedBeforeItsAgentsLeave) {
  Run();
  Evict();
  const Decision decision = scene_.Decide();
  EXPECT_FALSE(decision.intent);
  EXPECT_THAT(All<StopMachine>(decision), IsEmpty());
  EXPECT_THAT(All<ReleaseWorkload>(decision), IsEmpty());
  ASSERT_TRUE(decision.desired && decision.desired->stop);
  EXPECT_EQ(decision.desired->stop->reason, core::StopReason::kSuspended);
}

TEST_F(QueueTest, QuotaIsReleasedOnlyWhenNoPodIsLeft) {
  Run();
  Evict();
  scene_.Settle();
  scene_.Pass(seconds(2));
  const Decision leaving = scene_.Settle();
  EXPECT_THAT(All<StopMachine>(leaving), SizeIs(2));
  EXPECT_THAT(All<ReleaseWorkload>(leaving), IsEmpty());
  const WallTime leave_by = scene_.now.wall + seconds(30);
  for (MachineObservation& seen : scene_.machines()) seen.leave_by = leave_by;
  EXPECT_THAT(All<ReleaseWorkload>(scene_.Settle()), IsEmpty());
  scene_.RemoveMachines();
  const Decision last = scene_.Settle();
  const auto released = All<ReleaseWorkload>(last);
  ASSERT_THAT(released, SizeIs(1));
  EXPECT_EQ(released[0].version, "7");
  ASSERT_TRUE(last.status);
  EXPECT_EQ(last.status->state, JobState::kQueued);
  EXPECT_FALSE(last.status->timings.created);
}

TEST_F(QueueTest, APodOnADeadNodeHoldsQuotaForItsLeaseAndNoLonger) {
  Run();
  Evict();
  scene_.Settle();
  scene_.Pass(seconds(2));
  scene_.Settle();
  for (MachineObservation& seen : scene_.machines()) {
    seen.leave_by = scene_.now.wall;
    seen.node_state = NodeState::kUnreachable;
  }
  EXPECT_THAT(All<ReleaseWorkload>(scene_.Settle()), IsEmpty());
  scene_.Pass(scene_.status().machine_lost_after);
  EXPECT_THAT(All<ReleaseWorkload>(scene_.Settle()), SizeIs(1));
}

TEST_F(QueueTest, ReleasedItIsNotReleasedAgainAndRunsWhenAdmittedAgain) {
  Run();
  Evict();
  LetGo();
  EXPECT_THAT(All<ReleaseWorkload>(scene_.Settle()), SizeIs(1));
  workload().admitted = workload().holds_quota = false;
  workload().pods_ready = false;
  Refuse();
  EXPECT_THAT(scene_.Settle().actions, IsEmpty());
  Admit();
  const Decision decision = scene_.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->epoch, 2U);
  EXPECT_EQ(decision.intent->counters, core::Counters());
}

TEST_F(QueueTest, ASuspendedJobLeavesTheQueueOnceItsPodsAreGone) {
  Run();
  scene_.spec().suspend = true;
  scene_.Settle();
  EXPECT_THAT(All<DropWorkload>(scene_.Decide()), IsEmpty());
  LetGo();
  EXPECT_THAT(All<DropWorkload>(scene_.Settle()), SizeIs(1));
  queue().workload.reset();
  scene_.Settle();
  EXPECT_EQ(scene_.status().state, JobState::kSuspended);
  EXPECT_TRUE(WritesNothing(scene_.Decide()));
  scene_.spec().suspend = false;
  EXPECT_THAT(All<MakeWorkload>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, OfAJobOnAnotherClusterItKeepsTheWorkloadAlone) {
  scene_.spec().managed_by = kMultiKueue;
  Decision decision = scene_.Decide();
  EXPECT_THAT(All<MakeWorkload>(decision), SizeIs(1));
  EXPECT_THAT(decision.actions, SizeIs(1));
  EXPECT_FALSE(decision.intent || decision.status);
  Queue();
  Admit();
  decision = scene_.Decide();
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_FALSE(decision.intent || decision.status);
  scene_.spec().suspend = true;
  EXPECT_THAT(All<DropWorkload>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, KueueHearsOfPodsOnAnotherClusterByTheJobsStatus) {
  scene_.spec().managed_by = kMultiKueue;
  Queue();
  Admit();
  EXPECT_THAT(scene_.Decide().actions, IsEmpty());
  core::Condition ready;
  ready.type = "PodsReady";
  ready.status = Condition::Value::kTrue;
  scene_.status().conditions = {ready};
  const auto told = All<TellWorkload>(scene_.Decide());
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].type, "PodsReady");
  EXPECT_TRUE(told[0].holds);
  workload().pods_ready = true;
  EXPECT_THAT(scene_.Decide().actions, IsEmpty());
}

TEST_F(QueueTest, AJobOnAnotherClusterIsReleasedOnceItHasLeft) {
  EvictElsewhere();
  scene_.status().epoch = 1;
  for (const JobState state : {JobState::kRunning, JobState::kStopping}) {
    scene_.status().state = state;
    EXPECT_THAT(scene_.Decide().actions, IsEmpty());
  }
  scene_.status().state = JobState::kQueued;
  const auto released = All<ReleaseWorkload>(scene_.Decide());
  ASSERT_THAT(released, SizeIs(1));
  EXPECT_EQ(released[0].version, "7");
  workload().admitted = workload().holds_quota = false;
  EXPECT_THAT(scene_.Decide().actions, IsEmpty());
}

TEST_F(QueueTest, AJobThatNeverBeganOnAnotherClusterIsReleasedAtOnce) {
  EvictElsewhere();
  EXPECT_THAT(All<ReleaseWorkload>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, AClusterOfWhichNothingIsHeardHoldsTheQuotaForItsLeaseAndNoLonger) {
  EvictElsewhere();
  scene_.status().epoch = 1;
  scene_.status().state = JobState::kRunning;
  const Decision decision = scene_.Decide();
  EXPECT_THAT(decision.actions, IsEmpty());
  const Duration longest =
      scene_.spec().grace_period + seconds(15) + scene_.spec().failure_policy.machine_lost_after;
  EXPECT_EQ(decision.wake, scene_.now.boot + longest);
  scene_.Pass(longest);
  EXPECT_THAT(All<ReleaseWorkload>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, AJobThatEndedOnAnotherClusterIsDeletedInTime) {
  scene_.spec().managed_by = kMultiKueue;
  scene_.spec().ttl_seconds_after_finished = 60;
  scene_.status().state = JobState::kSucceeded;
  scene_.status().timings.finished = scene_.now.wall;
  EXPECT_THAT(scene_.Decide().actions, IsEmpty());
  scene_.Pass(seconds(60));
  EXPECT_THAT(All<DeleteJob>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, AWorkloadOfMultiKueuesBecomesTheJobs) {
  Queue();
  queue().prebuilt = workload().name;
  workload().owned = false;
  const auto adopted = All<AdoptWorkload>(scene_.Decide());
  ASSERT_THAT(adopted, SizeIs(1));
  EXPECT_EQ(adopted[0].name, workload().name);
  EXPECT_EQ(adopted[0].version, "7");
  workload().owned = true;
  EXPECT_THAT(All<AdoptWorkload>(scene_.Decide()), IsEmpty());
}

TEST_F(QueueTest, AWorkloadOfMultiKueuesIsNeitherMadeNorDeleted) {
  queue().prebuilt = "trainingjob-gpt-9";
  const Decision decision = scene_.Decide();
  EXPECT_THAT(All<MakeWorkload>(decision), IsEmpty());
  EXPECT_THAT(decision.status->reason, HasSubstr("trainingjob-gpt-9"));
  Queue();
  workload().count = 7;
  EXPECT_THAT(All<DropWorkload>(scene_.Decide()), IsEmpty());
}

TEST_F(QueueTest, AJobOfAnotherSizeIsQueuedAnew) {
  Run();
  scene_.spec().num_machines = 3;
  LetGo();
  const Decision decision = scene_.Settle();
  EXPECT_THAT(All<DropWorkload>(decision), SizeIs(1));
  EXPECT_THAT(All<StartMachine>(decision), IsEmpty());
}

TEST_F(QueueTest, AWorkloadThatIsNotActiveIsAStop) {
  Run();
  workload().active = false;
  const Decision decision = scene_.Decide();
  ASSERT_TRUE(decision.desired->stop);
  EXPECT_THAT(decision.status->reason, HasSubstr("not active"));
}

TEST_F(QueueTest, AGangRunsOnWhileNobodyJudgesIt) {
  Run();
  for (const Queues queues : {Queues::kAbsent, Queues::kUnknown}) {
    scene_.snapshot().queue =
        QueueSeen{.queues = queues, .name = "lq", .prebuilt = {}, .workload = {}};
    const Decision decision = scene_.Decide();
    EXPECT_THAT(decision.actions, IsEmpty());
    EXPECT_FALSE(decision.desired->stop);
  }
  // Somebody deleted it: it is made anew, and until Kueue has looked at it the gang runs.
  queue() = {.queues = Queues::kThere, .name = "lq", .prebuilt = {}, .workload = {}};
  EXPECT_THAT(All<MakeWorkload>(scene_.Decide()), SizeIs(1));
  Queue();
  EXPECT_FALSE(scene_.Decide().desired->stop);
  Refuse();
  EXPECT_TRUE(scene_.Decide().desired->stop);
}

// What is known of the queue, and whether pods that are missing are made.
struct Known {
  const char* what;
  Queues queues;
  bool workload;
  bool admitted;
  bool makes;
};

TEST_F(QueueTest, PodsOfAGangThatRunsAreMadeAsAnAdmissionHasThemAlone) {
  Run();
  scene_.machine(1).end = Killed(9);
  scene_.Settle();
  const std::vector<Known> all = {
      {"being read", Queues::kUnknown, false, false, false},
      {"deleted", Queues::kThere, false, false, false},
      {"made anew", Queues::kThere, true, false, false},
      {"admitted", Queues::kThere, true, true, true},
      {"Kueue is gone", Queues::kAbsent, false, false, true},
  };
  for (const Known& known : all) {
    queue() = {.queues = known.queues, .name = "lq", .prebuilt = {}, .workload = {}};
    if (known.workload) {
      Queue();
      if (known.admitted) Admit();
    }
    const Decision decision = scene_.Decide();
    EXPECT_THAT(All<StartMachine>(decision), SizeIs(known.makes ? 1 : 0)) << known.what;
    EXPECT_FALSE(decision.desired->stop) << known.what;
    if (known.makes) continue;
    ASSERT_TRUE(decision.status) << known.what;
    EXPECT_THAT(decision.status->reason, HasSubstr("wait for queue lq: ")) << known.what;
  }
  scene_.snapshot().queue = std::nullopt;
  EXPECT_THAT(All<StartMachine>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, SparesAreMadeAsAnAdmissionHasThemAlone) {
  scene_.spec().spare_machines = 1;
  Queue();
  workload().count = 3;
  Admit();
  const WorkloadSeen admitted = workload();
  for (int i = 0; i < 2; ++i) scene_.Make(scene_.Settle());
  scene_.Running();
  queue().workload.reset();
  EXPECT_THAT(All<StartSpare>(scene_.Decide()), IsEmpty());
  queue().workload = admitted;
  EXPECT_THAT(All<StartSpare>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, SparesBeyondTheAdmittedWaitForTheNextAdmission) {
  struct Wanted {
    int count;  // of pods that are admitted, two of them machines
    int spares;
    size_t made;
  };
  for (const Wanted& wanted : {Wanted{2, 2, 0}, {3, 2, 1}, {4, 2, 2}, {4, 1, 1}, {1, 1, 0}}) {
    SCOPED_TRACE(wanted.count);
    Scene scene(MakeJob("gpt").Machines(2));
    scene.Run();
    WorkloadSeen seen;
    seen.name = "trainingjob-gpt-1b9d6";
    seen.queue = "lq";
    seen.count = wanted.count;
    seen.admitted = seen.holds_quota = true;
    scene.snapshot().queue =
        QueueSeen{.queues = Queues::kThere, .name = "lq", .prebuilt = {}, .workload = seen};
    scene.spec().spare_machines = wanted.spares;
    EXPECT_THAT(All<StartSpare>(scene.Decide()), SizeIs(wanted.made));
  }
}

TEST_F(QueueTest, WithoutKueueAJobWaitsAndSaysSo) {
  queue().queues = Queues::kAbsent;
  const Decision decision = scene_.Settle();
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_EQ(scene_.status().state, JobState::kQueued);
  EXPECT_THAT(scene_.status().reason, HasSubstr("Kueue is not installed"));
  EXPECT_THAT(scene_.status().reason, HasSubstr("may not read Kueue's objects"));
}

TEST_F(QueueTest, WhyAWorkloadCannotBeMadeIsTold) {
  scene_.notes().refusal = Refusal{Refusal::Kind::kInvalid, "the job's Workload",
                                   "workloadpriorityclass x does not exist"};
  scene_.notes().make_again = scene_.now.boot + seconds(1);
  EXPECT_THAT(scene_.Settle().actions, IsEmpty());
  EXPECT_THAT(scene_.status().reason, HasSubstr("workloadpriorityclass x does not exist"));
  scene_.Pass(seconds(1));
  EXPECT_THAT(All<MakeWorkload>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, ARefusedWorkloadIsWaitedForThoughTheJobHasRunBefore) {
  Run();
  scene_.spec().suspend = true;
  LetGo();
  queue().workload.reset();
  scene_.Settle();
  scene_.spec().suspend = false;
  EXPECT_THAT(All<MakeWorkload>(scene_.Decide()), SizeIs(1));
  scene_.notes().refusal = Refusal{Refusal::Kind::kForbidden, "workload gpt", "exceeded quota"};
  scene_.notes().make_again = scene_.now.boot + seconds(1);
  const Decision decision = scene_.Settle();
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_FALSE(decision.nothing_missing);
  EXPECT_EQ(decision.wake, scene_.notes().make_again);
  EXPECT_THAT(scene_.status().reason, HasSubstr("exceeded quota"));
  scene_.Pass(seconds(1));
  EXPECT_THAT(All<MakeWorkload>(scene_.Decide()), SizeIs(1));
}

TEST_F(QueueTest, ARefusedWorkloadOfAGangThatRunsIsWaitedFor) {
  Run();
  queue().workload.reset();
  scene_.notes().refusal = Refusal{Refusal::Kind::kForbidden, "workload gpt", "exceeded quota"};
  scene_.notes().make_again = scene_.now.boot + seconds(1);
  const Decision decision = scene_.Settle();
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_EQ(decision.wake, scene_.notes().make_again);
  EXPECT_FALSE(decision.desired->stop);
  EXPECT_EQ(scene_.status().state, JobState::kRunning);
}

TEST_F(QueueTest, TheEndIsToldOnceNothingRunsAnyMore) {
  Run();
  scene_.machine(0).end = Verdict(0, {1, 1}, 0, 1);
  EXPECT_THAT(All<TellWorkload>(scene_.Settle()), IsEmpty());
  scene_.machine(1).end = Exited(0);
  const auto told = All<TellWorkload>(scene_.Settle());
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].type, "Finished");
  EXPECT_EQ(told[0].reason, "Succeeded");
  workload().finished = true;
  EXPECT_THAT(All<TellWorkload>(scene_.Settle()), IsEmpty());
}

TEST_F(QueueTest, NodesThatDoNotComeAreKueuesToJudge) {
  Queue();
  Admit();
  for (int i = 0; i < 3; ++i) scene_.Make(scene_.Settle());
  for (MachineObservation& seen : scene_.machines()) {
    seen.stage = Stage::kUnplaced;
    seen.node.clear();
    seen.ready = false;
  }
  scene_.snapshot().oldest_waiting = false;
  scene_.Pass(scene_.spec().health.start_timeout + seconds(1));
  const Decision decision = scene_.Decide();
  EXPECT_FALSE(decision.intent);
  EXPECT_THAT(All<StopMachine>(decision), IsEmpty());
  // Kueue is gone, and nobody else would.
  queue() = {.queues = Queues::kAbsent, .name = "lq", .prebuilt = {}, .workload = {}};
  const Decision release = scene_.Decide();
  ASSERT_TRUE(release.intent);
  EXPECT_TRUE(release.intent->attempts.empty());
  EXPECT_THAT(release.intent->reason, HasSubstr("found no node within startTimeout"));
}

}  // namespace
}  // namespace lockstep::control
