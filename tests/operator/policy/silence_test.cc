#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;

core::TrainingJob Elastic(int machines) {
  return MakeJob("gpt").Machines(machines).With([](core::Spec& spec) { spec.elastic.emplace(); });
}

// Nothing is heard of these; their nodes are called ready still. Their next attempts run elsewhere.
void Silence(Scene& scene, const std::vector<size_t>& machines) {
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kStopping);
  for (const size_t machine : machines) gang.machines.at(machine).silent_for = seconds(15);
  Decision decision = scene.Settle();
  // What is deleted there stays until somebody hears of the node.
  std::erase_if(decision.actions,
                [](const Action& each) { return std::holds_alternative<StopMachine>(each); });
  scene.Make(decision);
  scene.Report(CoordinatorPhase::kGathering);
  scene.Settle();
}

// The attempt of the machine that was lost last.
MachineObservation& Lost(Scene& scene, int machine) {
  MachineObservation* lost = nullptr;
  for (MachineObservation& seen : scene.machines()) {
    if (seen.machine != machine || seen.attempt == scene.status().attempts.Of(machine)) continue;
    if (lost == nullptr || seen.attempt > lost->attempt) lost = &seen;
  }
  return *lost;
}

void Remove(Scene& scene, const MachineObservation& pod) {
  scene.machines().remove_if([name = pod.name](const auto& seen) { return seen.name == name; });
}

uint32_t Charged(Scene& scene) {
  scene.Settle();
  return scene.status().counters.replacements;
}

TEST(Silence, CostsNothingBeforeItIsKnownOfTheNodeAndNothingWhereThatIsLostToo) {
  for (const NodeState state :
       {NodeState::kUnreachable, NodeState::kOutOfService, NodeState::kGone}) {
    for (const bool new_operator : {false, true}) {
      Scene scene(Elastic(3));
      scene.Run();
      Silence(scene, {2});
      EXPECT_EQ(scene.status().attempts.Of(2), 2U);
      EXPECT_EQ(scene.status().elastic->silent.Of(2), 1U);
      EXPECT_EQ(Charged(scene), 0U);
      if (new_operator) scene.ForgetAll();
      Lost(scene, 2).node_state = state;
      EXPECT_EQ(Charged(scene), 0U);
      EXPECT_TRUE(scene.status().elastic->silent.empty());
      Remove(scene, Lost(scene, 2));
      EXPECT_EQ(Charged(scene), 0U) << "it is settled";
    }
  }
}

TEST(Silence, CostsWhatAnyLossDoesOnceAHealthyNodeHasEndedThePod) {
  for (const bool seen_over : {false, true}) {
    for (const bool new_operator : {false, true}) {
      Scene scene(Elastic(3));
      scene.Run();
      Silence(scene, {1});
      if (new_operator) scene.ForgetAll();
      if (seen_over) {
        Lost(scene, 1).end = Killed(9);
      } else {
        Remove(scene, Lost(scene, 1));
      }
      EXPECT_EQ(Charged(scene), 1U);
      EXPECT_TRUE(scene.status().elastic->silent.empty());
    }
  }
}

TEST(Silence, OfAPodThatTheClusterEndedForItsNodeCostsNothing) {
  Scene scene(Elastic(3));
  scene.Run();
  Silence(scene, {2});
  Lost(scene, 2).end = Killed(9);
  Lost(scene, 2).end->asked = true;
  EXPECT_EQ(Charged(scene), 0U);
  EXPECT_TRUE(scene.status().elastic->silent.empty());
}

TEST(Silence, OfAPodThatWillNotEndOnANodeThatIsCalledReadyCostsInTheEnd) {
  Scene scene(Elastic(3));
  scene.Run();
  Silence(scene, {1});
  scene.Pass(minutes(10));
  EXPECT_EQ(Charged(scene), 0U) << "it has yet to be deleted";
  Lost(scene, 1).leave_by = scene.now.wall;
  EXPECT_EQ(Charged(scene), 0U);
  EXPECT_LE(scene.Decide().wake, scene.now.boot + minutes(6));
  scene.Pass(minutes(6));
  EXPECT_EQ(Charged(scene), 1U);
}

TEST(Silence, OfASuccessorCostsWhileThatOfAnEarlierAttemptIsOpen) {
  Scene scene(Elastic(3));
  scene.Run();
  Silence(scene, {1});
  Silence(scene, {1});
  EXPECT_EQ(Charged(scene), 1U);
  EXPECT_EQ(scene.status().elastic->silent.Of(1), 1U);
}

TEST(Silence, OfTwentyNodesThatAreLostInAnHourOrAtOnceEndsNoJob) {
  for (const bool at_once : {false, true}) {
    Scene scene(Elastic(24));
    scene.snapshot().replacements_allowed = 20;
    scene.Run();
    std::vector<size_t> machines;
    for (size_t machine = 1; machine <= 20; ++machine) machines.push_back(machine);
    if (at_once) Silence(scene, machines);
    for (const size_t machine : machines) {
      if (!at_once) {
        Silence(scene, {machine});
        scene.Pass(minutes(3));
      }
      Lost(scene, static_cast<int>(machine)).node_state = NodeState::kUnreachable;
      EXPECT_EQ(Charged(scene), 0U);
    }
    EXPECT_NE(scene.status().state, core::JobState::kFailed);
    EXPECT_FALSE(scene.status().verdict);
    EXPECT_EQ(scene.status().attempts.Of(1), 2U);
    EXPECT_NE(scene.status().attempts.Of(20), 1U);
  }
}

TEST(Silence, OfElevenHealthyNodesMachinesEndsAJob) {
  Scene scene(Elastic(12));
  scene.snapshot().replacements_allowed = 20;
  scene.Run();
  std::vector<size_t> machines;
  for (size_t machine = 1; machine < 12; ++machine) machines.push_back(machine);
  Silence(scene, machines);
  EXPECT_NE(scene.status().state, core::JobState::kFailed);
  for (const size_t machine : machines) Remove(scene, Lost(scene, static_cast<int>(machine)));
  scene.snapshot().coordinator.reset();
  scene.Settle();
  scene.Pass(seconds(10));
  scene.Settle();
  EXPECT_EQ(scene.status().state, core::JobState::kFailed);
}

TEST(Silence, CostsAtOnceWhereTheGangMayNotShrink) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  Silence(scene, {2});
  EXPECT_EQ(Charged(scene), 1U);
}

TEST(Silence, IsNotWhatAFailurePolicyAsksFor) {
  Scene scene(Elastic(3));
  scene.Run();
  scene.Report(CoordinatorPhase::kStopping).machines[1].replace = true;
  scene.Make(scene.Settle());
  EXPECT_EQ(Charged(scene), 1U);
  EXPECT_TRUE(scene.status().elastic->silent.empty());
}

}  // namespace
}  // namespace lockstep::control
