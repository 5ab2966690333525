// Slices of a queue's quota: what an elastic gang gives back, and how it gets it again.
#include <gmock/gmock.h>

#include "operator/policy/facts/queue.h"
#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;
using core::JobState;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kNoQuota = "insufficient unused quota for cpu in flavor a3, 1 more needed";

core::TrainingJob Sliced() {
  core::TrainingJob job = MakeJob("gpt").Machines(3).With(
      [](core::Spec& spec) { spec.elastic = core::Elastic{.min_machines = 1, .sizes = {}}; });
  job.metadata.annotations[kSliced] = "true";
  return job;
}

WorkloadSeen Slice(uint32_t number, int64_t count) {
  WorkloadSeen seen;
  seen.name = number == 0 ? "w" : "w-s" + std::to_string(number);
  seen.slice = number;
  seen.uid = "uid-" + seen.name;
  seen.version = "7";
  seen.owned = true;
  seen.elastic = true;
  seen.queue = "lq";
  seen.count = count;
  return seen;
}

WorkloadSeen Admitted(WorkloadSeen seen) {
  seen.waits = seen.evicted = false;
  seen.admitted = seen.holds_quota = true;
  seen.pods_ready = true;
  return seen;
}

class QuotaTest : public testing::Test {
 protected:
  QuotaTest() {
    scene_.snapshot().queue = QueueSeen{
        .queues = Queues::kThere, .name = "lq", .prebuilt = {}, .workload = Admitted(Slice(0, 3))};
    scene_.Run();
  }

  QueueSeen& queue() { return *scene_.snapshot().queue; }
  core::ElasticStatus& elastic() { return *scene_.status().elastic; }
  std::string WithoutQuota() { return elastic().without_quota.ToString(); }

  // The machine's next pod finds no node.
  void Unplace(int machine) {
    MachineObservation& seen = scene_.machine(machine);
    seen.stage = Stage::kUnplaced;
    seen.node.clear();
    seen.ready = false;
    seen.started.reset();
    seen.unplaced_because = "0/3 nodes are available";
  }
  void Lose(int machine) {
    scene_.RemoveMachine(machine);
    scene_.Make(scene_.Settle());
    Unplace(machine);
    scene_.Report(CoordinatorPhase::kGathering);
  }
  // A generation of what was decided last.
  void Runs() {
    core::GangStatus& gang = scene_.Report(CoordinatorPhase::kRunning);
    gang.generation = {scene_.status().attempts.Of(0), ++gang.generation.n};
    gang.epoch = scene_.status().epoch;
    core::GenerationRecord record;
    record.generation = gang.generation;
    record.members = elastic().members;
    gang.history.push_back(record);
  }
  // A gang of two, whose third machine's pod is gone, and what it had is counted off.
  void Shrink() {
    Lose(2);
    scene_.Pass(minutes(2));
    for (int i = 0; i < 3; ++i) scene_.Make(scene_.Settle());
    ASSERT_EQ(WithoutQuota(), "2");
    const auto resized = All<ResizeWorkload>(scene_.Settle());
    ASSERT_THAT(resized, SizeIs(1));
    queue().workload->count = resized[0].pods;
    Runs();
    scene_.Settle();
  }
  // It has asked for all again.
  void Ask() {
    Shrink();
    scene_.Pass(minutes(15));
    const auto made = All<MakeWorkload>(scene_.Settle());
    ASSERT_THAT(made, SizeIs(1));
    queue().growth = Slice(made[0].slice, made[0].pods);
    queue().growth->waits = true;
    queue().growth->message = kNoQuota;
    Runs();
    scene_.Settle();
  }
  // Kueue has admitted it, and finished the one before.
  void Grant() {
    WorkloadSeen old = *queue().workload;
    old.finished = old.replaced = true;
    queue().past = {old};
    queue().workload = Admitted(*queue().growth);
    queue().growth.reset();
  }

  Scene scene_{Sliced()};
};

TEST_F(QuotaTest, AMachineThatIsLeftOutGivesItsQuotaBackOnceItsPodIsGone) {
  Lose(2);
  scene_.Pass(minutes(2));
  const Decision smaller = scene_.Decide();
  ASSERT_TRUE(smaller.intent);
  EXPECT_EQ(smaller.intent->elastic->members.ToString(), "0-1");
  scene_.status() = *smaller.intent;
  const Decision returned = scene_.Decide();
  ASSERT_TRUE(returned.intent);
  EXPECT_THAT(returned.actions, IsEmpty()) << "status comes first";
  EXPECT_EQ(returned.intent->elastic->without_quota.ToString(), "2");
  EXPECT_EQ(returned.intent->attempts.Of(2), returned.intent->epoch) << "its pod is fenced";
  EXPECT_EQ(returned.intent->epoch, smaller.intent->epoch + 1);
  EXPECT_EQ(returned.intent->counters, smaller.intent->counters) << "it costs nothing";
  ASSERT_THAT(returned.events, SizeIs(1));
  EXPECT_EQ(returned.events[0].reason, "QuotaReturned");
  scene_.status() = *returned.intent;

  const Decision leaving = scene_.Settle();
  EXPECT_THAT(All<StopMachine>(leaving), SizeIs(1));
  EXPECT_THAT(All<ResizeWorkload>(leaving), IsEmpty()) << "its pod is there";
  EXPECT_THAT(All<StartMachine>(leaving), IsEmpty());
  scene_.Make(leaving);
  const auto resized = All<ResizeWorkload>(scene_.Settle());
  ASSERT_THAT(resized, SizeIs(1));
  EXPECT_EQ(resized[0].name, "w");
  EXPECT_EQ(resized[0].version, "7");
  EXPECT_EQ(resized[0].pods, 2);
  queue().workload->count = 2;
  Runs();
  const Decision after = scene_.Settle();
  EXPECT_THAT(after.actions, IsEmpty());
  EXPECT_EQ(scene_.status().state, JobState::kRunning);
  EXPECT_EQ(scene_.status().created_epoch, scene_.status().epoch);
}

TEST_F(QuotaTest, WhatWasNotMadeAsASliceKeepsItsQuota) {
  queue().workload->elastic = false;
  Lose(2);
  scene_.Pass(minutes(5));
  scene_.Settle();
  EXPECT_EQ(elastic().members.ToString(), "0-1");
  EXPECT_THAT(All<StopMachine>(scene_.Settle()), IsEmpty());
  EXPECT_EQ(WithoutQuota(), "");
}

TEST_F(QuotaTest, AllIsAskedForAgainAfterGrowAfterAndNotBefore) {
  Shrink();
  scene_.Pass(minutes(14));
  Runs();
  EXPECT_THAT(All<MakeWorkload>(scene_.Settle()), IsEmpty());
  scene_.Pass(minutes(1));
  const auto made = All<MakeWorkload>(scene_.Settle());
  ASSERT_THAT(made, SizeIs(1));
  EXPECT_EQ(made[0].pods, 3);
  EXPECT_EQ(made[0].slice, scene_.status().epoch);
  EXPECT_EQ(made[0].replaces, "w");
  EXPECT_TRUE(made[0].elastic);
}

TEST_F(QuotaTest, WhileGrowthWaitsTheGangRunsOnAndSaysSo) {
  Ask();
  EXPECT_EQ(scene_.status().state, JobState::kRunning);
  EXPECT_THAT(scene_.status().reason,
              HasSubstr("machines take part (0-1): machine 2 found no node; a growth to 3 machines "
                        "waits for queue lq: insufficient unused quota"));
  const core::Condition* shrunk = core::FindCondition(scene_.status().conditions, "Shrunk");
  ASSERT_NE(shrunk, nullptr);
  EXPECT_EQ(shrunk->reason, "WaitsForQueue");
  const Decision decision = scene_.Decide();
  EXPECT_THAT(decision.actions, IsEmpty());
  EXPECT_FALSE(decision.intent);
  EXPECT_FALSE(decision.desired->stop);
}

TEST_F(QuotaTest, PodsAreMadeOnceGrowthIsAdmitted) {
  Ask();
  Grant();
  const Decision granted = scene_.Decide();
  ASSERT_TRUE(granted.intent);
  EXPECT_TRUE(granted.intent->elastic->without_quota.empty());
  EXPECT_EQ(granted.intent->elastic->members.ToString(), "0-1") << "until its machines are there";
  EXPECT_EQ(granted.intent->attempts.Of(2), granted.intent->epoch);
  EXPECT_EQ(granted.events[0].reason, "QuotaGranted");
  scene_.status() = *granted.intent;
  const Decision made = scene_.Settle();
  ASSERT_THAT(All<StartMachine>(made), SizeIs(1));
  EXPECT_EQ(All<StartMachine>(made)[0].machine, 2U);
  EXPECT_THAT(All<DropWorkload>(made), IsEmpty()) << "the last one stays";
  scene_.Make(made);
  Runs();
  const Decision larger = scene_.Decide();
  ASSERT_TRUE(larger.intent);
  EXPECT_EQ(larger.intent->elastic->members.ToString(), "0-2");
}

TEST_F(QuotaTest, WhatIsNotAdmittedMakesNoPod) {
  Ask();
  Grant();
  queue().workload->admitted = false;  // admission checks have yet to speak
  EXPECT_THAT(All<StartMachine>(scene_.Settle()), IsEmpty());
  EXPECT_EQ(WithoutQuota(), "2");
}

TEST_F(QuotaTest, QuotaThatIsYetToBeCountedOffIsNotGrantedAgain) {
  Lose(2);
  scene_.spec().elastic->grow_after = seconds(0);
  scene_.Pass(minutes(2));
  const Decision leaving = scene_.Settle();
  EXPECT_THAT(All<StopMachine>(leaving), SizeIs(1));
  EXPECT_THAT(All<MakeWorkload>(leaving), IsEmpty());
  scene_.Make(leaving);
  const Decision decision = scene_.Settle();
  EXPECT_THAT(All<ResizeWorkload>(decision), SizeIs(1));
  EXPECT_THAT(All<MakeWorkload>(decision), IsEmpty());
  EXPECT_EQ(WithoutQuota(), "2");
}

TEST_F(QuotaTest, AMachineThatFindsNoNodeAgainGivesItsQuotaBackAgain) {
  Ask();
  Grant();
  scene_.Make(scene_.Settle());
  Unplace(2);
  Runs();
  scene_.Pass(seconds(119));
  Runs();
  scene_.Settle();
  EXPECT_EQ(WithoutQuota(), "");
  scene_.Pass(seconds(1));
  Runs();
  scene_.Make(scene_.Settle());
  EXPECT_EQ(WithoutQuota(), "2");
  const Decision decision = scene_.Settle();
  EXPECT_THAT(All<ResizeWorkload>(decision), SizeIs(1));
  queue().workload->count = 2;
  Runs();
  EXPECT_THAT(All<MakeWorkload>(scene_.Settle()), IsEmpty()) << "growAfter begins anew";
  EXPECT_EQ(scene_.status().state, JobState::kRunning);
}

TEST_F(QuotaTest, AnotherOperatorGoesOnFromStatusAndWhatIsSeen) {
  Ask();
  scene_.ForgetAll();
  Runs();
  scene_.notes().key_made = true;
  EXPECT_THAT(scene_.Settle().actions, IsEmpty());
  EXPECT_EQ(WithoutQuota(), "2");
  Grant();
  scene_.ForgetAll();
  scene_.notes().key_made = true;
  EXPECT_THAT(All<StartMachine>(scene_.Settle()), SizeIs(1));
  EXPECT_EQ(scene_.status().counters.replacements, 1U) << "that of the machine that was lost";
}

TEST_F(QuotaTest, AnEvictedGangAsksForAllOnceItsQuotaIsReleased) {
  Ask();
  queue().workload->evicted = true;
  const Decision evicted = scene_.Settle();
  EXPECT_THAT(All<DropWorkload>(evicted), SizeIs(1));
  EXPECT_EQ(All<DropWorkload>(evicted)[0].name, queue().growth->name);
  EXPECT_TRUE(evicted.desired->stop);
  queue().growth.reset();
  scene_.Pass(seconds(2));
  scene_.Make(scene_.Settle());
  scene_.RemoveMachines();
  const Decision left = scene_.Settle();
  EXPECT_THAT(All<ReleaseWorkload>(left), SizeIs(1));
  EXPECT_THAT(All<DropWorkload>(left), IsEmpty());
  queue().workload->admitted = queue().workload->holds_quota = false;
  queue().workload->waits = true;
  const auto resized = All<ResizeWorkload>(scene_.Settle());
  ASSERT_THAT(resized, SizeIs(1));
  EXPECT_EQ(resized[0].pods, 3);
  EXPECT_FALSE(scene_.Decide().intent) << "two are too few to begin with";
  queue().workload = Admitted(Slice(0, 3));
  scene_.Settle();
  EXPECT_EQ(WithoutQuota(), "");
  EXPECT_EQ(scene_.status().attempts.size(), 3);
}

TEST_F(QuotaTest, ASuspendedJobTakesItsRequestBack) {
  Ask();
  scene_.spec().suspend = true;
  const auto dropped = All<DropWorkload>(scene_.Settle());
  ASSERT_THAT(dropped, SizeIs(1));
  EXPECT_EQ(dropped[0].name, queue().growth->name);
}

TEST_F(QuotaTest, WhereKueueIsGoneTheyWaitAsJobsThatBeginAndWithoutAQueueTheyDoNot) {
  Shrink();
  scene_.snapshot().queue =
      QueueSeen{.queues = Queues::kAbsent, .name = "lq", .prebuilt = {}, .workload = {}};
  EXPECT_THAT(scene_.Settle().actions, IsEmpty());
  EXPECT_EQ(WithoutQuota(), "2");
  scene_.snapshot().queue.reset();
  EXPECT_THAT(All<StartMachine>(scene_.Settle()), SizeIs(1));
  EXPECT_EQ(WithoutQuota(), "");
}

TEST_F(QuotaTest, AWorkloadThatSomebodyDeletedIsMadeForThoseThatHaveQuota) {
  Shrink();
  queue().workload.reset();
  const auto made = All<MakeWorkload>(scene_.Settle());
  ASSERT_THAT(made, SizeIs(1));
  EXPECT_EQ(made[0].pods, 2);
  EXPECT_EQ(made[0].slice, 0U);
}

TEST_F(QuotaTest, WhatIsReplacedIsFinishedAndOldOnesGo) {
  Ask();
  Grant();
  queue().past[0].finished = queue().past[0].replaced = false;  // Kueue was killed in between
  queue().past.insert(queue().past.begin(), Slice(0, 3));
  queue().past[0].name = "older";
  queue().past[0].finished = queue().past[0].replaced = true;
  scene_.Make(scene_.Settle());
  const Decision decision = scene_.Settle();
  const auto told = All<TellWorkload>(decision);
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].name, "w");
  EXPECT_EQ(told[0].type, "Finished");
  EXPECT_EQ(told[0].reason, "WorkloadSliceReplaced");
  const auto dropped = All<DropWorkload>(decision);
  ASSERT_THAT(dropped, SizeIs(1));
  EXPECT_EQ(dropped[0].name, "older");
}

// Names of workload, growth and the others.
std::string Sorted(std::vector<WorkloadSeen> workloads) {
  QueueSeen queue;
  Sort(std::move(workloads), &queue);
  std::string names = (queue.workload ? queue.workload->name : "none") + "," +
                      (queue.growth ? queue.growth->name : "none");
  for (const WorkloadSeen& past : queue.past) names += "," + past.name;
  return names;
}

TEST(Slices, TheLastThatHoldsQuotaIsTheJobs) {
  WorkloadSeen replaced = Admitted(Slice(0, 2));
  replaced.finished = replaced.replaced = true;
  WorkloadSeen finished = Admitted(Slice(4, 3));
  finished.finished = true;
  EXPECT_EQ(Sorted({}), "none,none");
  EXPECT_EQ(Sorted({Slice(0, 3)}), "w,none");
  EXPECT_EQ(Sorted({Slice(4, 3), Admitted(Slice(0, 2))}), "w,w-s4");
  EXPECT_EQ(Sorted({Admitted(Slice(4, 3)), Admitted(Slice(0, 2))}), "w-s4,none,w");
  EXPECT_EQ(Sorted({Admitted(Slice(4, 3)), replaced}), "w-s4,none,w");
  EXPECT_EQ(Sorted({Slice(4, 3), replaced}), "w-s4,none,w") << "it was evicted";
  EXPECT_EQ(Sorted({Slice(9, 3), Admitted(Slice(4, 3)), replaced}), "w-s4,w-s9,w");
  EXPECT_EQ(Sorted({finished, replaced}), "w-s4,none,w");
  EXPECT_EQ(Sorted({replaced}), "none,none,w") << "somebody deleted the one that replaced it";
}

}  // namespace
}  // namespace lockstep::control
