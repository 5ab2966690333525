#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Condition;
using core::NodeHealth;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// A gang of three machines that runs.
Scene Running(NodeHealth health = NodeHealth::kAtCheckpoint, int spares = 0) {
  Scene scene(MakeJob("gpt").Machines(3).With([&](core::Spec& spec) {
    spec.failure_policy.node_health = health;
    spec.spare_machines = spares;
  }));
  scene.Run();
  scene.Pass(minutes(2));
  scene.Running();
  scene.snapshot().coordinator->status.commits = 1;
  scene.Settle();
  return scene;
}

void Queue(Scene& scene, Queues queues) {
  QueueSeen queue;
  queue.name = "team";
  queue.queues = queues;
  scene.snapshot().queue = queue;
}

std::vector<std::string> Asked(const Decision& decision) {
  std::vector<std::string> names;
  for (const StopMachine& stop : All<StopMachine>(decision)) {
    if (!stop.grace_seconds) names.push_back(stop.name);
  }
  return names;
}

std::vector<std::string> Events(const Decision& decision) {
  std::vector<std::string> reasons;
  for (const EventNote& event : decision.events) reasons.push_back(event.reason);
  return reasons;
}

Condition SickCondition(Scene& scene) {
  const Condition* found = core::FindCondition(scene.status().conditions, "OnSickNode");
  return found == nullptr ? Condition{} : *found;
}

void Write(Scene& scene, const Decision& decision) {
  ASSERT_TRUE(decision.status);
  scene.status() = *decision.status;
}

void Commit(Scene& scene) {
  ++scene.snapshot().coordinator->status.commits;
  scene.snapshot().coordinator->at = scene.now.boot;
}

// Settles, makes the spares that it asks for, and settles again.
void Prepare(Scene& scene) {
  scene.Make(scene.Settle());
  scene.Pass(seconds(2));
  scene.Settle();
}

TEST(NodeHealth, AMachineMovesAfterTheNextCheckpointOnceAnotherNodeIsThere) {
  Scene scene = Running();
  scene.machine(1).sick = "is cordoned";
  Decision decision = scene.Settle();
  EXPECT_THAT(All<StartSpare>(decision), SizeIs(1)) << "that shows whether a node is there";
  Write(scene, decision);
  EXPECT_EQ(SickCondition(scene).reason, "AwaitsNode");
  scene.Make(decision);
  scene.Pass(seconds(2));
  EXPECT_THAT(Asked(scene.Settle()), IsEmpty()) << "no checkpoint yet";
  EXPECT_EQ(SickCondition(scene).reason, "AwaitsCheckpoint");
  EXPECT_THAT(scene.status().reason, HasSubstr("machine 1 on node node-1, which is cordoned"));
  Commit(scene);
  EXPECT_THAT(Asked(scene.Settle()), IsEmpty()) << "its files are being moved into place";
  scene.Pass(seconds(1));
  decision = scene.Settle();
  EXPECT_THAT(Asked(decision), testing::ElementsAre("gpt-1"));
  EXPECT_THAT(Events(decision), testing::Contains("MachineMoves"));
  EXPECT_THAT(Asked(scene.Settle()), IsEmpty()) << "it was asked";
}

TEST(NodeHealth, AMoveIsUnchargedAndSaysWhy) {
  Scene scene = Running(NodeHealth::kNow);
  scene.spec().failure_policy.max_machine_replacements = 0;
  scene.machine(1).sick = "has taint nvidia.com/gpu-error";
  scene.Make(scene.Settle());  // the spare
  scene.Pass(seconds(2));
  ASSERT_THAT(Asked(scene.Settle()), SizeIs(1));
  scene.machine(1).leave_by = scene.now.wall + seconds(30);
  scene.Settle();
  EXPECT_EQ(SickCondition(scene).reason, "Moves");
  scene.machine(1).end = Exited(143);
  scene.machine(1).all_ended = true;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->counters.replacements, 0);
  EXPECT_EQ(decision.intent->attempts.Of(1), 2U);
  ASSERT_THAT(decision.events, testing::Not(IsEmpty()));
  EXPECT_FALSE(decision.events[0].warning);
  EXPECT_THAT(decision.events[0].note, HasSubstr("node node-1 has taint nvidia.com/gpu-error"));
  scene.status() = *decision.intent;
  const Decision next = scene.Settle();
  EXPECT_THAT(All<StopMachine>(next), SizeIs(1)) << "the spare gives its node up, and no earlier";
}

TEST(NodeHealth, HistoryNamesTheSickNode) {
  Scene scene = Running(NodeHealth::kNow);
  scene.machine(1).sick = "is cordoned";
  scene.Make(scene.Settle());
  scene.Pass(seconds(2));
  ASSERT_THAT(Asked(scene.Settle()), SizeIs(1));
  core::GangStatus& gang = scene.snapshot().coordinator->status;
  core::GenerationRecord record;
  record.generation = gang.generation;
  record.spawned = seconds(1);
  record.stop_reason = core::StopReason::kDraining;
  record.failure.cause = core::Cause::kStopRequested;
  record.ended = record.stop_sent = seconds(2);
  gang.history = {record};
  gang.phase = core::CoordinatorPhase::kGathering;
  scene.Pass(seconds(2));
  scene.Settle();
  ASSERT_THAT(scene.status().history, SizeIs(1));
  EXPECT_EQ(scene.status().history[0].reason, "machine 1 moved: node node-1 is cordoned");
}

TEST(NodeHealth, NothingMovesWithoutAnotherNodeAndOneEventSaysSo) {
  for (const NodeHealth health : {NodeHealth::kAtCheckpoint, NodeHealth::kNow}) {
    Scene scene = Running(health);
    scene.machine(1).sick = "is cordoned";
    scene.Make(scene.Settle());
    scene.spares()[0].stage = Stage::kUnplaced;
    scene.spares()[0].ready = false;
    scene.spares()[0].unplaced_because = "0/3 nodes are available";
    int events = 0;
    for (int i = 0; i < 10; ++i) {
      scene.Pass(seconds(10));
      Commit(scene);
      const Decision decision = scene.Decide();
      EXPECT_THAT(Asked(decision), IsEmpty());
      if (decision.status) {
        events += static_cast<int>(std::ranges::count(Events(decision), "NoHealthyNode"));
        scene.status() = *decision.status;
      }
    }
    EXPECT_EQ(events, 1);
    EXPECT_EQ(SickCondition(scene).reason, "NoHealthyNode");
    EXPECT_THAT(SickCondition(scene).message, HasSubstr("0/3 nodes are available"));
  }
}

TEST(NodeHealth, ASpareOnASickNodeIsNoPlaceToMoveTo) {
  Scene scene = Running(NodeHealth::kNow, 1);
  scene.machine(1).sick = "is cordoned";
  ASSERT_THAT(scene.spares(), SizeIs(1));
  scene.spares()[0].sick = "has condition KernelDeadlock=True";
  scene.snapshot().sick_nodes = {"spare-0"};
  const Decision decision = scene.Settle();
  EXPECT_THAT(Asked(decision), IsEmpty());
  ASSERT_THAT(All<StartSpare>(decision), SizeIs(1)) << "another";
  EXPECT_THAT(All<StartSpare>(decision)[0].avoid_nodes, testing::Contains("spare-0"));
}

TEST(NodeHealth, AReadySpareIsAPlaceAtOnce) {
  Scene scene = Running(NodeHealth::kNow, 1);
  scene.machine(2).sick = "is cordoned";
  const Decision decision = scene.Settle();
  EXPECT_THAT(Asked(decision), testing::ElementsAre("gpt-2"));
  EXPECT_THAT(All<StartSpare>(decision), IsEmpty());
}

TEST(NodeHealth, AsManyMachinesMoveAsThereArePlacesAndReplacementsAllowed) {
  Scene scene = Running(NodeHealth::kNow);
  for (int i = 0; i < 3; ++i) scene.machine(i).sick = "is cordoned";
  scene.Make(scene.Settle());
  ASSERT_THAT(scene.spares(), SizeIs(3));
  scene.spares()[2].stage = Stage::kUnplaced;
  scene.spares()[2].ready = false;
  scene.snapshot().replacements_allowed = 1;
  EXPECT_THAT(Asked(scene.Settle()), testing::ElementsAre("gpt-0"));
}

TEST(NodeHealth, MachinesOfOneRoundEachNeedAPlace) {
  Scene scene = Running(NodeHealth::kNow);
  for (int i = 0; i < 3; ++i) scene.machine(i).sick = "is cordoned";
  scene.Make(scene.Settle());
  ASSERT_THAT(scene.spares(), SizeIs(3));
  scene.spares()[2].stage = Stage::kUnplaced;
  scene.spares()[2].ready = false;
  EXPECT_THAT(Asked(scene.Settle()), testing::ElementsAre("gpt-0", "gpt-1"));
}

TEST(NodeHealth, IgnoreLeavesMachinesWhereTheyAre) {
  Scene scene = Running(NodeHealth::kIgnore, 1);
  scene.machine(1).sick = "is cordoned";
  Commit(scene);
  scene.Pass(seconds(5));
  const Decision decision = scene.Settle();
  EXPECT_THAT(All<StopMachine>(decision), IsEmpty());
  EXPECT_EQ(SickCondition(scene).type, "");
}

TEST(NodeHealth, IgnoreEndsTheCondition) {
  Scene scene = Running();
  scene.machine(1).sick = "is cordoned";
  Write(scene, scene.Settle());
  ASSERT_EQ(SickCondition(scene).status, Condition::Value::kTrue);
  scene.spec().failure_policy.node_health = NodeHealth::kIgnore;
  scene.Settle();
  EXPECT_EQ(SickCondition(scene).status, Condition::Value::kFalse);
  EXPECT_EQ(SickCondition(scene).reason, "Ignored");
}

TEST(NodeHealth, ASignCountsAfterThirtySecondsExceptWithNow) {
  for (const NodeHealth health : {NodeHealth::kAtCheckpoint, NodeHealth::kNow}) {
    Scene scene = Running(health);
    scene.machine(1).sick = "is cordoned";
    scene.machine(1).sick_since = scene.now.boot;
    const bool at_once = health == NodeHealth::kNow;
    const Decision young = scene.Settle();
    EXPECT_THAT(All<StartSpare>(young), SizeIs(at_once ? 1 : 0));
    if (at_once) continue;
    EXPECT_LE(young.wake, scene.now.boot + seconds(30));
    scene.Pass(seconds(30));
    scene.Running();
    scene.snapshot().coordinator->status.commits = 1;
    EXPECT_THAT(All<StartSpare>(scene.Settle()), SizeIs(1));
  }
}

TEST(NodeHealth, NoNodeIsHeldForAJobThatHasNotCommitted) {
  Scene scene = Running();
  scene.snapshot().coordinator->status.commits = 0;
  scene.machine(1).sick = "is cordoned";
  EXPECT_THAT(All<StartSpare>(scene.Settle()), IsEmpty());
  EXPECT_EQ(SickCondition(scene).reason, "AwaitsCheckpoint");
  EXPECT_THAT(SickCondition(scene).message, HasSubstr("none was committed yet"));
  EXPECT_THAT(SickCondition(scene).message, HasSubstr("nodeHealth: Now"));
  Commit(scene);
  EXPECT_THAT(All<StartSpare>(scene.Settle()), SizeIs(1));
}

TEST(NodeHealth, WithCheckpointsInMemoryMachinesMoveOneByOne) {
  Scene scene = Running(NodeHealth::kNow, 2);
  scene.spec().checkpoint.memory.size = Quantity::FromUnits(1);
  for (int i = 0; i < 2; ++i) scene.machine(i).sick = "is cordoned";
  EXPECT_THAT(Asked(scene.Settle()), testing::ElementsAre("gpt-0"));
  scene.machine(0).leave_by = scene.now.wall + seconds(30);
  EXPECT_THAT(Asked(scene.Settle()), IsEmpty());
}

TEST(NodeHealth, CheckpointsInMemoryWithoutACopyHoldTheMachine) {
  for (const NodeHealth health : {NodeHealth::kAtCheckpoint, NodeHealth::kNow}) {
    Scene scene = Running(health);
    scene.spec().checkpoint.memory.size = Quantity::FromUnits(1);
    scene.spec().checkpoint.memory.replicas = 0;
    scene.machine(1).sick = "is cordoned";
    EXPECT_THAT(All<StartSpare>(scene.Settle()), IsEmpty());
    EXPECT_EQ(SickCondition(scene).reason, "Stays");
    scene.spec().checkpoint.path = "/checkpoints";
    EXPECT_THAT(All<StartSpare>(scene.Settle()), SizeIs(1)) << "they are written there";
  }
}

TEST(NodeHealth, CheckpointsInMemoryAloneAreCopiedWhenTheNextIsCommitted) {
  Scene scene = Running(NodeHealth::kAtCheckpoint, 1);
  scene.spec().checkpoint.memory.size = Quantity::FromUnits(1);
  scene.machine(1).sick = "is cordoned";
  for (int commits = 0; commits < 3; ++commits) {
    EXPECT_THAT(Asked(scene.Settle()), SizeIs(commits < 2 ? 0 : 1));
    Commit(scene);
    EXPECT_THAT(Asked(scene.Settle()), IsEmpty());
    scene.Pass(seconds(1));
  }
}

TEST(NodeHealth, AClaimThatOneNodeUsesHoldsTheMachine) {
  Scene scene = Running();
  scene.spec().checkpoint.claim = "disk";
  scene.spec().checkpoint.path = "/checkpoints";
  scene.machine(1).sick = "is cordoned";
  const std::vector<StartSpare> spares = All<StartSpare>(scene.Settle());
  ASSERT_THAT(spares, SizeIs(1)) << "three nodes use it";
  EXPECT_TRUE(spares[0].claims);
  for (int i = 0; i < 3; ++i) scene.machine(i).node = "node-1";
  EXPECT_THAT(All<StartSpare>(scene.Settle()), IsEmpty());
  EXPECT_EQ(SickCondition(scene).reason, "Stays");
  EXPECT_THAT(SickCondition(scene).message, HasSubstr("volumes"));
}

TEST(NodeHealth, MovesThatRepeatBecomeRare) {
  for (const int rounds : {1, 2, 3}) {
    Scene scene = Running(NodeHealth::kNow, 1);
    for (int i = 0; i < rounds; ++i) {
      core::RestartRecord record;
      record.generation = {1, static_cast<uint32_t>(i + 1)};
      record.detected = scene.now.wall - minutes(30) * (rounds - 1 - i);
      record.reason = "machine 2 moved: node a is cordoned";
      scene.status().history.push_back(record);
    }
    scene.machine(1).sick = "is cordoned";
    const Duration pause = minutes(10) * (1 << (rounds - 1));
    scene.Pass(pause - seconds(10));
    scene.Running();
    EXPECT_THAT(Asked(scene.Settle()), IsEmpty()) << rounds;
    EXPECT_EQ(SickCondition(scene).reason, "MovedBefore");
    scene.Pass(seconds(10));
    scene.Running();
    EXPECT_THAT(Asked(scene.Settle()), SizeIs(1)) << rounds;
  }
}

TEST(NodeHealth, AMachineThatHasMovedStaysForTenMinutes) {
  Scene scene = Running(NodeHealth::kNow, 1);
  scene.machine(1).sick = "is cordoned";
  ASSERT_THAT(Asked(scene.Settle()), SizeIs(1));
  scene.machine(1).leave_by = scene.now.wall + seconds(30);
  scene.machine(1).end = Exited(143);
  scene.machine(1).all_ended = true;
  for (int i = 0; i < 4; ++i) scene.Make(scene.Settle());
  scene.machine(1).sick = "has condition KernelDeadlock=True";
  for (int i = 0; i < 2; ++i) {
    scene.Pass(seconds(5));
    scene.Running();
    const Decision decision = scene.Settle();
    EXPECT_THAT(Asked(decision), IsEmpty());
    scene.Make(decision);
  }
  EXPECT_EQ(SickCondition(scene).reason, "MovedBefore");
  scene.Pass(minutes(10));
  scene.Running();
  EXPECT_THAT(Asked(scene.Settle()), SizeIs(1));
}

TEST(NodeHealth, ACommitBeforeANodeIsThereMovesNothing) {
  Scene scene = Running();
  scene.machine(1).sick = "is cordoned";
  scene.Make(scene.Settle());
  scene.spares()[0].ready = false;
  Commit(scene);
  scene.Pass(seconds(2));
  EXPECT_THAT(Asked(scene.Settle()), IsEmpty());
  scene.spares()[0].ready = true;
  scene.Pass(seconds(2));
  EXPECT_THAT(Asked(scene.Settle()), IsEmpty());
  Commit(scene);
  scene.Settle();
  scene.Pass(seconds(1));
  EXPECT_THAT(Asked(scene.Settle()), SizeIs(1));
}

TEST(NodeHealth, AQueuedJobMovesOnlyToItsOwnSpares) {
  for (const int spares : {0, 1}) {
    Scene scene = Running(NodeHealth::kAtCheckpoint, spares);
    Queue(scene, Queues::kThere);
    scene.machine(1).sick = "is cordoned";
    scene.snapshot().well_nodes = 100;
    const Decision decision = scene.Settle();
    EXPECT_THAT(All<StartSpare>(decision), IsEmpty()) << "the queue counts it";
    if (spares == 0) {
      Write(scene, decision);
      EXPECT_EQ(SickCondition(scene).reason, "NoHealthyNode");
      EXPECT_THAT(SickCondition(scene).message, HasSubstr("a drain moves it"));
    }
    Commit(scene);
    scene.Settle();
    scene.Pass(seconds(1));
    EXPECT_THAT(Asked(scene.Settle()), SizeIs(spares));
  }
}

TEST(NodeHealth, AJobWithAQueuesNameButNoQueuesGetsASpare) {
  Scene scene = Running();
  Queue(scene, Queues::kAbsent);
  scene.machine(1).sick = "is cordoned";
  scene.snapshot().well_nodes = 100;
  EXPECT_THAT(All<StartSpare>(scene.Settle()), SizeIs(1));
}

TEST(NodeHealth, WithNowAQueuedJobMovesIfAnotherWellNodeExists) {
  Scene scene = Running(NodeHealth::kNow);
  Queue(scene, Queues::kThere);
  scene.machine(1).sick = "is cordoned";
  scene.snapshot().well_nodes = 2;  // those of machines 0 and 2
  Decision decision = scene.Settle();
  EXPECT_THAT(Asked(decision), IsEmpty());
  EXPECT_THAT(All<StartSpare>(decision), IsEmpty()) << "the queue counts it";
  Write(scene, decision);
  EXPECT_EQ(SickCondition(scene).reason, "NoHealthyNode");
  scene.snapshot().well_nodes = 3;
  EXPECT_THAT(Asked(scene.Settle()), SizeIs(1));
}

TEST(NodeHealth, ARecoveredNodeEndsIt) {
  Scene scene = Running();
  scene.machine(1).sick = "is cordoned";
  Prepare(scene);
  ASSERT_THAT(scene.spares(), SizeIs(1));
  scene.machine(1).sick = "";
  Commit(scene);
  scene.Pass(seconds(2));
  const Decision decision = scene.Settle();
  EXPECT_THAT(Asked(decision), IsEmpty());
  EXPECT_THAT(All<StopMachine>(decision), SizeIs(1)) << "the spare has no use";
  Write(scene, decision);
  EXPECT_EQ(SickCondition(scene).status, Condition::Value::kFalse);
}

}  // namespace
}  // namespace lockstep::control
