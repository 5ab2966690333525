#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;
using core::Members;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::VariantWith;

core::TrainingJob Elastic(int machines, int least, std::vector<int32_t> sizes = {}) {
  return MakeJob("gpt").Machines(machines).With([&](core::Spec& spec) {
    spec.elastic = core::Elastic{.min_machines = least, .sizes = std::move(sizes)};
  });
}

std::string MembersOf(const core::JobStatus& status) {
  return status.elastic ? status.elastic->members.ToString() : "none";
}

// The machine's pod is gone, and its next one finds no node.
void Lose(Scene& scene, int machine, const char* why = "0/3 nodes are available") {
  scene.RemoveMachine(machine);
  scene.Make(scene.Settle());
  MachineObservation& seen = scene.machine(machine);
  seen.stage = Stage::kUnplaced;
  seen.node.clear();
  seen.ready = false;
  seen.started.reset();
  seen.unplaced_because = why;
  scene.Report(CoordinatorPhase::kGathering);
}

void Place(Scene& scene, int machine) {
  MachineObservation& seen = scene.machine(machine);
  seen.stage = Stage::kRunning;
  seen.node = "other";
  seen.ready = true;
  seen.started = scene.now.wall;
}

// Its attempt before this one.
MachineObservation& Earlier(Scene& scene, int machine) {
  const auto attempt = static_cast<uint32_t>(scene.status().attempts.Of(machine));
  return *std::ranges::find_if(scene.machines(), [&](const MachineObservation& each) {
    return each.machine == machine && each.attempt < attempt;
  });
}

// A generation of what was decided last runs.
void Runs(Scene& scene) {
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  gang.generation = {scene.status().attempts.Of(0), ++gang.generation.n + scene.status().epoch};
  gang.epoch = scene.status().epoch;
  core::GenerationRecord record;
  record.generation = gang.generation;
  record.members = scene.status().elastic->members;
  gang.history.push_back(record);
}

TEST(Elastic, AJobThatIsNotElasticSaysNothingOfMembers) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  EXPECT_FALSE(scene.status().elastic);
  EXPECT_TRUE(scene.Decide().desired->members.empty());
  Lose(scene, 2);
  scene.Pass(minutes(5));
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Elastic, AGangBeginsWithAllMachines) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  EXPECT_EQ(MembersOf(scene.status()), "0-2");
  EXPECT_EQ(scene.Decide().desired->members.ToString(), "0-2");
  EXPECT_EQ(scene.Decide().desired->witnesses.ToString(), "0-2");
}

TEST(Elastic, AMachineThatFindsNoNodeIsLeftOutAfterShrinkAfterAndNotBefore) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  Lose(scene, 1);
  scene.Pass(seconds(119));
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(seconds(1));
  const uint32_t epoch = scene.status().epoch;
  const uint32_t replacements = scene.status().counters.replacements;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(MembersOf(*decision.intent), "0,2");
  EXPECT_EQ(decision.intent->epoch, epoch + 1) << "what machine 0 was told before is refused";
  EXPECT_EQ(decision.intent->counters.replacements, replacements);
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_EQ(decision.events[0].reason, "GangShrunk");
  EXPECT_THAT(decision.events[0].note, HasSubstr("2 of 3 machines (0,2): machine 1 found no node"));
  EXPECT_FALSE(decision.desired) << "status comes first";
  scene.status() = *decision.intent;
  const Decision told = scene.Settle();
  EXPECT_EQ(scene.Decide().desired->members.ToString(), "0,2");
  EXPECT_EQ(scene.status().attempts.Of(0), 1U) << "survivors keep their pods";
}

TEST(Elastic, AMachineWithANodeIsWaitedFor) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  Lose(scene, 1);
  scene.machine(1).stage = Stage::kPlaced;  // and pulls its image
  scene.machine(1).node = "slow";
  scene.Pass(minutes(30));
  EXPECT_FALSE(scene.Decide().intent);
}

// The machine fell silent with its node, and its next pod was sent there again.
void SendToItsDead(Scene& scene, int machine) {
  scene.machine(machine).leave_by = scene.now.wall + seconds(1);
  scene.status().attempts.Set(machine, ++scene.status().epoch);
  MachineObservation& next = scene.AddMachine(machine, scene.status().epoch);
  next.stage = Stage::kPlaced;
  next.ready = false;
  next.started.reset();
  scene.Report(CoordinatorPhase::kGathering);
}

TEST(Elastic, AMachineWhosePodWasSentToTheNodeThatItsLastOneDoesNotLeaveHasNoNode) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  SendToItsDead(scene, 1);
  scene.Pass(seconds(119));
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(seconds(1));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(MembersOf(*decision.intent), "0,2");
  EXPECT_EQ(decision.intent->attempts, scene.status().attempts);
  Earlier(scene, 1).end = Killed(9);
  EXPECT_FALSE(scene.Decide().intent) << "the node lives: its kubelet has told of the pod's end";
}

TEST(Elastic, OnlySizesThatAreAllowedAreTaken) {
  Scene scene(Elastic(8, 4, {4, 6}));
  scene.Run();
  Lose(scene, 5);
  scene.Pass(minutes(2));
  EXPECT_EQ(MembersOf(*scene.Decide().intent), "0-4,6") << "of 7 machines 6 are used";
}

TEST(Elastic, ATrainersBatchDecidesWhereNoSizesAreNamed) {
  Scene scene(Elastic(4, 1));
  scene.spec().trainer.emplace();
  scene.spec().trainer->global_batch_size = 16;
  scene.Run();
  Lose(scene, 3);
  scene.Pass(minutes(2));
  EXPECT_EQ(MembersOf(*scene.Decide().intent), "0-1") << "16 can't be dealt out to 3";
}

TEST(Elastic, BelowMinMachinesTheGangWaits) {
  Scene scene(Elastic(3, 3));
  scene.Run();
  Lose(scene, 2);
  scene.Pass(minutes(5));
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Elastic, StartTimeoutCountsWhereTooFewHaveANode) {
  for (const int least : {2, 3}) {
    Scene scene(Elastic(3, least));
    scene.spec().elastic->shrink_after = hours(1);
    scene.Run();
    Lose(scene, 1);
    scene.snapshot().oldest_waiting = false;
    scene.Pass(minutes(11));
    scene.Report(CoordinatorPhase::kGathering);
    EXPECT_EQ(scene.Decide().intent.has_value(), least == 3);
  }
}

std::vector<uint32_t> Made(const Decision& decision) {
  std::vector<uint32_t> machines;
  for (const Action& action : decision.actions) {
    if (const auto* start = std::get_if<StartMachine>(&action)) machines.push_back(start->machine);
  }
  return machines;
}

TEST(Elastic, Machine0GetsTheNodeOfTheHighestMachineWhereItFindsNone) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  Lose(scene, 0);
  scene.Pass(seconds(119));
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(seconds(1));
  const core::JobStatus before = scene.status();
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(MembersOf(*decision.intent), "0-1");
  EXPECT_EQ(decision.intent->elastic->witnesses.ToString(), "0-1");
  EXPECT_EQ(decision.intent->epoch, before.epoch + 1);
  EXPECT_EQ(decision.intent->attempts.Of(0), before.attempts.Of(0))
      << "it waits for a node already";
  EXPECT_EQ(decision.intent->attempts.Of(1), before.attempts.Of(1)) << "survivors keep their pods";
  EXPECT_EQ(decision.intent->attempts.Of(2), before.epoch + 1);
  EXPECT_EQ(decision.intent->counters, before.counters) << "it costs nothing";
  ASSERT_THAT(decision.events, SizeIs(1));
  EXPECT_THAT(decision.events[0].note,
              HasSubstr("machine 0 found no node, so it takes the node of machine 2"));
}

TEST(Elastic, WhoGaveItsNodeToMachine0WaitsUntilThatHasIt) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  Lose(scene, 0);
  scene.Pass(minutes(2));
  scene.status() = *scene.Decide().intent;
  const Decision leaves = scene.Decide();
  EXPECT_THAT(
      leaves.actions,
      Contains(VariantWith<StopMachine>(Field(&StopMachine::name, Earlier(scene, 2).name))));
  EXPECT_THAT(Made(leaves), IsEmpty());
  scene.machines().remove_if([](const MachineObservation& each) { return each.machine == 2; });
  EXPECT_THAT(Made(scene.Settle()), IsEmpty());
  Place(scene, 0);
  EXPECT_THAT(Made(scene.Settle()), ElementsAre(2U));
}

TEST(Elastic, Machine0ThatWasSentToItsDeadNodeIsMadeAnewOnceAnotherOnesIsFree) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  SendToItsDead(scene, 0);
  scene.Pass(minutes(2));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(MembersOf(*decision.intent), "0-1");
  EXPECT_EQ(decision.intent->attempts.Of(0), decision.intent->epoch);
  EXPECT_EQ(decision.intent->attempts.Of(2), decision.intent->epoch);
  EXPECT_EQ(decision.intent->counters, scene.status().counters) << "it costs nothing";
  scene.status() = *decision.intent;
  EXPECT_THAT(Made(scene.Settle()), IsEmpty());
  Earlier(scene, 2).leave_by = scene.now.wall + seconds(1);
  EXPECT_THAT(Made(scene.Settle()), IsEmpty()) << "the scheduler would send it there again";
  scene.machines().remove_if([](const MachineObservation& each) { return each.machine == 2; });
  EXPECT_THAT(Made(scene.Settle()), ElementsAre(0U));
}

TEST(Elastic, NoSecondMachineGivesWayWhileTheFirstIsOnItsWayOut) {
  Scene scene(Elastic(4, 1));
  scene.Run();
  Lose(scene, 0);
  scene.Pass(minutes(2));
  scene.status() = *scene.Decide().intent;
  ASSERT_EQ(MembersOf(scene.status()), "0-2");
  Earlier(scene, 3).leave_by = scene.now.wall + seconds(30);
  scene.Pass(seconds(31));
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(seconds(1));
  EXPECT_EQ(MembersOf(*scene.Decide().intent), "0-1") << "that node does not come free";
}

TEST(Elastic, WhoIsLeftOutGivesMachine0ItsNodeFirst) {
  Scene scene(Elastic(4, 1));
  scene.Run();
  Lose(scene, 1);
  scene.Pass(minutes(2));
  scene.status() = *scene.Decide().intent;
  Runs(scene);
  Place(scene, 1);
  Lose(scene, 0);
  scene.Pass(minutes(2));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(MembersOf(*decision.intent), "0,2-3");
  EXPECT_EQ(decision.intent->attempts.Of(1), decision.intent->epoch);
}

TEST(Elastic, WhoElseWaitsForANodeStepsAsideForMachine0) {
  Scene scene(Elastic(4, 1));
  scene.Run();
  Lose(scene, 0);
  Lose(scene, 2);
  scene.Pass(minutes(2));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(MembersOf(*decision.intent), "0-1");
  EXPECT_EQ(decision.intent->attempts.Of(2), decision.intent->epoch);
  EXPECT_EQ(decision.intent->attempts.Of(3), decision.intent->epoch);
}

TEST(Elastic, Machine0WaitsForItsNodeWhereTheOthersAreTooFew) {
  Scene scene(Elastic(3, 3));
  scene.Run();
  Lose(scene, 0);
  scene.Pass(minutes(5));
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Elastic, Machine0WaitsWhereNoOthersPlaceWouldDo) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  Lose(scene, 0);
  scene.machine(0).place_is_its_own = true;
  scene.Pass(minutes(5));
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Elastic, AGangIsNotLetGoOfAsSoonAsItsMachine0IsGivenANode) {
  Scene scene(Elastic(2, 1));
  scene.spec().elastic->shrink_after = minutes(20);
  scene.Run();
  Lose(scene, 0);
  scene.snapshot().oldest_waiting = false;
  scene.Pass(minutes(20));
  scene.status() = *scene.Decide().intent;
  ASSERT_EQ(MembersOf(scene.status()), "0");
  EXPECT_FALSE(scene.Decide().intent) << "the scheduler has yet to see that there is room";
}

TEST(Elastic, AGangWhoseMachine0FindsNoNodeIsNotLetGoOf) {
  Scene scene(Elastic(3, 2));
  scene.spec().elastic->shrink_after = hours(1);
  scene.Run();
  Lose(scene, 0);
  scene.snapshot().oldest_waiting = false;
  scene.Pass(minutes(11));
  EXPECT_FALSE(scene.Decide().intent);
}

// The machine is drained, and its next pod has yet to find a node.
MachineObservation& Drain(Scene& scene, int machine) {
  scene.machine(machine).leave_by = scene.now.wall;
  scene.machine(machine).end = Exited(143);
  scene.Make(scene.Settle());
  MachineObservation& next = scene.machine(machine);
  next.stage = Stage::kUnplaced;
  next.node.clear();
  scene.Report(CoordinatorPhase::kGathering);
  return next;
}

TEST(Elastic, AMachineThatWasAskedToLeaveIsLeftOutAsSoonAsTheSchedulerHasSaidNo) {
  for (const bool new_operator : {false, true}) {
    Scene scene(Elastic(3, 1));
    scene.Run();
    MachineObservation& next = Drain(scene, 2);
    scene.machines().remove_if([](const MachineObservation& each) { return each.over(); });
    if (new_operator) scene.ForgetAll();
    EXPECT_FALSE(scene.Decide().intent);
    next.unplaced_because = "0/3 nodes are available";
    const Decision decision = scene.Decide();
    ASSERT_TRUE(decision.intent) << (new_operator ? "by a new operator" : "");
    EXPECT_EQ(MembersOf(*decision.intent), "0-1");
  }
}

TEST(Elastic, ThatAMachineWasAskedToLeaveCountsUntilItHasANode) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  Drain(scene, 2);
  scene.Settle();
  EXPECT_EQ(scene.status().elastic->asked.ToString(), "2");
  Place(scene, 2);
  scene.Settle();
  EXPECT_TRUE(scene.status().elastic->asked.empty());
  Lose(scene, 2);
  EXPECT_FALSE(scene.Decide().intent) << "nobody asked it to leave this time";
}

TEST(Elastic, AMachineThatIsLostAfterItWasAskedToLeaveIsWaitedFor) {
  Scene scene(Elastic(3, 1));
  scene.Run();
  Drain(scene, 2);
  scene.Settle();
  Lose(scene, 2);
  EXPECT_TRUE(scene.status().elastic->asked.empty());
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Elastic, StartsSmallWhereTheRestDoesNotCome) {
  Scene scene(Elastic(3, 2));
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  MachineObservation& seen = scene.machine(2);
  seen.stage = Stage::kUnplaced;
  seen.node.clear();
  scene.Report(CoordinatorPhase::kGathering);
  scene.Pass(minutes(2));
  EXPECT_EQ(MembersOf(*scene.Decide().intent), "0-1");
}

class Shrunk : public testing::Test {
 protected:
  Shrunk() : scene_(Elastic(3, 1)) {
    scene_.Run();
    Lose(scene_, 1);
    scene_.Pass(minutes(2));
    scene_.status() = *scene_.Decide().intent;
    Runs(scene_);
    scene_.Settle();
  }
  Scene scene_;
};

TEST_F(Shrunk, RunsAndSaysWhoIsMissing) {
  EXPECT_EQ(scene_.status().state, core::JobState::kRunning);
  EXPECT_THAT(scene_.status().reason, HasSubstr("2 of 3 machines take part (0,2): machine 1"));
  const core::Condition* shrunk = core::FindCondition(scene_.status().conditions, "Shrunk");
  ASSERT_NE(shrunk, nullptr);
  EXPECT_EQ(shrunk->status, core::Condition::Value::kTrue);
  const core::Condition* ready = core::FindCondition(scene_.status().conditions, "PodsReady");
  ASSERT_NE(ready, nullptr);
  EXPECT_EQ(ready->status, core::Condition::Value::kTrue) << "who is left out is not waited for";
  EXPECT_EQ(scene_.status().replicas, 3) << "the wish stands: an autoscaler does not fight it";
}

TEST_F(Shrunk, IsNotLetGoOfForTheOneThatWaits) {
  scene_.snapshot().oldest_waiting = false;
  scene_.Pass(minutes(30));
  Runs(scene_);
  EXPECT_FALSE(scene_.Decide().intent);
}

TEST_F(Shrunk, GrowsOnceTheMachineIsBackAndGrowAfterIsOver) {
  Place(scene_, 1);
  Runs(scene_);
  scene_.Settle();
  EXPECT_EQ(MembersOf(scene_.status()), "0,2");
  scene_.Pass(minutes(15));
  Runs(scene_);
  const Decision decision = scene_.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(MembersOf(*decision.intent), "0-2");
  EXPECT_EQ(decision.events.at(0).reason, "GangGrown");
}

TEST_F(Shrunk, SaysThatToGrowItWaitsForACommit) {
  Place(scene_, 1);
  scene_.Pass(minutes(15));
  Runs(scene_);
  scene_.status() = *scene_.Decide().intent;
  const auto is = [this](core::Condition::Value value, const char* reason) {
    const core::Condition* shrunk = core::FindCondition(scene_.status().conditions, "Shrunk");
    return shrunk != nullptr && shrunk->status == value && shrunk->reason == reason;
  };
  scene_.Settle();
  EXPECT_EQ(scene_.status().reason,
            "2 of 3 machines take part (0,2): machine 1 can take part again once the program "
            "commits a checkpoint");
  EXPECT_TRUE(is(core::Condition::Value::kTrue, "WaitsForCommit"));
  scene_.ForgetAll();
  scene_.snapshot().coordinator.reset();
  scene_.Make(scene_.Settle());
  scene_.Settle();
  EXPECT_TRUE(is(core::Condition::Value::kTrue, "WaitsForCommit")) << "says a new operator, too";
  scene_.Pass(seconds(1));
  Runs(scene_);
  scene_.Settle();
  EXPECT_EQ(scene_.status().reason, "");
  EXPECT_TRUE(is(core::Condition::Value::kFalse, "AllTakePart"));
}

TEST_F(Shrunk, RunsOnWhereTheMachineIsLostAgainBeforeItTakesPart) {
  Place(scene_, 1);
  scene_.Pass(minutes(15));
  Runs(scene_);
  scene_.status() = *scene_.Decide().intent;
  Lose(scene_, 1);
  scene_.Report(CoordinatorPhase::kRunning);
  scene_.Settle();
  EXPECT_EQ(MembersOf(scene_.status()), "0-2");
  EXPECT_EQ(scene_.status().state, core::JobState::kRunning);
  scene_.Pass(minutes(2));
  EXPECT_EQ(MembersOf(*scene_.Decide().intent), "0,2");
}

TEST_F(Shrunk, DoesNotGrowByAMachineThatMachine0DoesNotHear) {
  Place(scene_, 1);
  scene_.Pass(minutes(20));
  Runs(scene_);
  scene_.snapshot().coordinator->status.machines[1].connected = false;
  EXPECT_FALSE(scene_.Decide().intent);
}

TEST_F(Shrunk, DoesNotGrowWhileItIsRestarting) {
  Place(scene_, 1);
  scene_.Pass(minutes(20));
  scene_.Report(CoordinatorPhase::kStopping);
  EXPECT_FALSE(scene_.Decide().intent);
}

TEST_F(Shrunk, WhoWasLeftOutIsNoWitnessUntilAGenerationHasItAgain) {
  EXPECT_EQ(scene_.status().elastic->witnesses.ToString(), "0,2");
  Place(scene_, 1);
  scene_.Pass(minutes(15));
  Runs(scene_);
  scene_.status() = *scene_.Decide().intent;
  scene_.snapshot().coordinator->status.epoch = scene_.status().epoch;
  scene_.Settle();
  EXPECT_EQ(scene_.Decide().desired->members.ToString(), "0-2");
  EXPECT_EQ(scene_.Decide().desired->witnesses.ToString(), "0,2") << "the smaller one still runs";
  Runs(scene_);
  scene_.Settle();
  EXPECT_EQ(scene_.Decide().desired->witnesses.ToString(), "0-2");
}

TEST_F(Shrunk, AReportFromBeforeTheLastDecisionMakesNoWitnesses) {
  Place(scene_, 1);
  scene_.Pass(minutes(15));
  Runs(scene_);
  scene_.status() = *scene_.Decide().intent;
  scene_.snapshot().coordinator->status.history.back().members = *Members::Parse("0-2");
  scene_.Settle();
  EXPECT_EQ(scene_.status().elastic->witnesses.ToString(), "0,2");
}

TEST_F(Shrunk, TheLossOfANodeCostsNoBudget) {
  const uint32_t before = scene_.status().counters.replacements;
  scene_.machine(2).node_state = NodeState::kGone;
  const Decision decision = scene_.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->counters.replacements, before);
}

TEST_F(Shrunk, AGangThatIsMadeAnewKeepsItsWitnesses) {
  scene_.spec().suspend = true;
  scene_.Report(CoordinatorPhase::kHeld);
  scene_.snapshot().desired_state_accepted = true;
  scene_.Make(scene_.Settle());
  scene_.RemoveMachines();
  scene_.Settle();
  scene_.spec().suspend = false;
  scene_.Settle();
  EXPECT_EQ(MembersOf(scene_.status()), "0-2");
  EXPECT_EQ(scene_.status().elastic->witnesses.ToString(), "0,2");
}

}  // namespace
}  // namespace lockstep::control
