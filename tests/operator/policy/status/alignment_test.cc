#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Condition;
using testing::HasSubstr;

const Condition* Aligned(Scene& scene) {
  return core::FindCondition(scene.status().conditions, "TopologyAligned");
}

void Bind(Scene& scene, const std::vector<core::Binding>& bindings) {
  scene.Running();
  for (size_t i = 0; i < bindings.size(); ++i) {
    scene.snapshot().coordinator->status.machines.at(i).binding = bindings[i];
  }
  scene.Pass(seconds(1));
  scene.Settle();
}

TEST(Alignment, HoldsOnceEveryMachineReportsWhatWasAsked) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Bind(scene, {core::Binding::kNode, core::Binding::kUnknown});
  EXPECT_EQ(Aligned(scene), nullptr) << "machine 1 has not said yet";
  Bind(scene, {core::Binding::kNode, core::Binding::kNode});
  ASSERT_NE(Aligned(scene), nullptr);
  EXPECT_EQ(Aligned(scene)->status, Condition::Value::kTrue);
  EXPECT_EQ(scene.status().machine_statuses.front().binding, "Node");
}

TEST(Alignment, NamesTheMachineThatIsBoundOtherwiseAndWhy) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Running();
  core::GangStatus::MachineStatus& machine = scene.snapshot().coordinator->status.machines.at(1);
  machine.binding = core::Binding::kNone;
  machine.binding_reason = "sched_setaffinity: EPERM";
  scene.Pass(seconds(1));
  scene.Settle();
  ASSERT_NE(Aligned(scene), nullptr);
  EXPECT_EQ(Aligned(scene)->status, Condition::Value::kFalse);
  EXPECT_EQ(Aligned(scene)->message,
            "machine 1 is bound None where Node was asked: sched_setaffinity: EPERM");
}

TEST(Alignment, StandsWhileAGangRestarts) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Bind(scene, {core::Binding::kNode, core::Binding::kNode});
  scene.Report(core::CoordinatorPhase::kStopping);
  scene.Settle();
  EXPECT_EQ(Aligned(scene)->status, Condition::Value::kTrue);
}

TEST(Alignment, FailsWhereKubeletRejectsAPodForItsTopology) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.machine(1).end = Misaligned("Resources cannot be allocated with Topology locality");
  scene.Settle();
  scene.Settle();
  ASSERT_NE(Aligned(scene), nullptr);
  EXPECT_EQ(Aligned(scene)->status, Condition::Value::kFalse);
  EXPECT_THAT(Aligned(scene)->message,
              HasSubstr("machine 1 on node node-1: TopologyAffinityError"));
}

TEST(Alignment, LetsAMachineThatIsBoundOtherwiseRunOnUnlessItIsRequired) {
  for (const core::TopologyPolicy policy :
       {core::TopologyPolicy::kNone, core::TopologyPolicy::kPreferred}) {
    Scene scene(MakeJob("gpt").Machines(2));
    scene.spec().topology.policy = policy;
    scene.Run();
    Bind(scene, {core::Binding::kNode, core::Binding::kNone});
    EXPECT_EQ(scene.status().epoch, 1U);
  }
}

TEST(Alignment, WhereItIsRequiredAMachineThatIsBoundOtherwiseIsReplacedOnAnotherNode) {
  for (const core::Binding binding : {core::Binding::kPartial, core::Binding::kNone}) {
    for (const int index : {0, 1}) {
      Scene scene(MakeJob("gpt").Machines(2));
      scene.spec().topology.policy = core::TopologyPolicy::kRequired;
      scene.Run();
      scene.Running();
      core::GangStatus& gang = scene.snapshot().coordinator->status;
      for (auto& machine : gang.machines) machine.binding = core::Binding::kNode;
      gang.machines.at(static_cast<size_t>(index)).binding = binding;
      gang.machines.at(static_cast<size_t>(index)).binding_reason = "set_mempolicy: EPERM";
      Decision decision = scene.Decide();
      ASSERT_TRUE(decision.intent);
      const core::JobStatus& next = *decision.intent;
      EXPECT_EQ(next.attempts.Of(index), 2U);
      EXPECT_EQ(next.attempts.Of(1 - index), 1U);
      EXPECT_EQ(next.counters.process_failures, 0U) << "no failure of the training";
      EXPECT_EQ(next.counters.replacements, 1U);
      const std::string what = std::string("is bound ") + core::ToString(binding) +
                               " where Node was asked: set_mempolicy: EPERM";
      EXPECT_THAT(decision.events.at(0).note, HasSubstr("it " + what + " on node node-"));
      const Condition* aligned = core::FindCondition(next.conditions, "TopologyAligned");
      ASSERT_NE(aligned, nullptr);
      EXPECT_EQ(aligned->status, Condition::Value::kFalse);
      EXPECT_EQ(aligned->reason, "BoundOtherwise");
      EXPECT_THAT(aligned->message, HasSubstr(what));

      scene.status() = next;
      decision = scene.Settle();
      EXPECT_THAT(All<StartMachine>(decision), testing::IsEmpty()) << "it waits";
      scene.Make(decision);  // what is left of the attempt goes, and with it its node's name
      scene.Pass(seconds(1));
      const std::vector<StartMachine> started = All<StartMachine>(scene.Settle());
      ASSERT_THAT(started, testing::SizeIs(1));
      EXPECT_THAT(started[0].avoid_nodes, testing::ElementsAre("node-" + std::to_string(index)));
    }
  }
}

TEST(Alignment, MachinesThatAreBoundOtherwiseTogetherCostOneReplacementAndAllWait) {
  Scene scene(MakeJob("gpt").Machines(4));
  scene.spec().topology.policy = core::TopologyPolicy::kRequired;
  scene.Run();
  scene.Pass(minutes(2));  // as long as an image took
  scene.Running();
  core::GangStatus& gang = scene.snapshot().coordinator->status;
  for (auto& machine : gang.machines) {
    machine.binding = machine.index == 0 ? core::Binding::kNode : core::Binding::kPartial;
  }
  Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(3), 2U);
  EXPECT_EQ(decision.intent->counters.replacements, 1U);
  scene.status() = *decision.intent;
  decision = scene.Settle();
  EXPECT_THAT(All<StartMachine>(decision), testing::IsEmpty()) << "they wait";
  scene.Make(decision);
  scene.Pass(seconds(1));
  const std::vector<StartMachine> started = All<StartMachine>(scene.Settle());
  ASSERT_FALSE(started.empty());
  EXPECT_THAT(started[0].avoid_nodes, testing::SizeIs(3)) << "what refused one refuses all";
}

TEST(Alignment, AMachineThatHasNotSaidHowItIsBoundIsNotReplaced) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().topology.policy = core::TopologyPolicy::kRequired;
  scene.Run();
  Bind(scene, {core::Binding::kNode, core::Binding::kUnknown});
  EXPECT_EQ(scene.status().epoch, 1U);
}

TEST(Alignment, EveryNodeThatRefusedAMachineIsAvoidedAndAskedLaterAndLater) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  std::vector<Duration> waits;
  std::vector<std::string> avoided;
  for (const char* node : {"a", "b", "c"}) {
    scene.machine(1).node = node;
    scene.machine(1).end = Misaligned("");
    Decision decision = scene.Settle();
    Duration waited{};
    for (; All<StartMachine>(decision).empty() && waited < minutes(5); waited += seconds(1)) {
      scene.Make(decision);
      scene.Pass(seconds(1));
      decision = scene.Settle();
    }
    waits.push_back(waited);
    avoided = All<StartMachine>(decision).at(0).avoid_nodes;
    scene.Make(decision);
  }
  EXPECT_THAT(waits, testing::ElementsAre(seconds(1), seconds(5), seconds(30)));
  EXPECT_THAT(avoided, testing::ElementsAre("a", "b", "c"));
}

TEST(Alignment, IsNotSpokenOfWhereNothingIsToBeBound) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().topology.bind = core::Bind::kNone;
  scene.Run();
  Bind(scene, {core::Binding::kNone, core::Binding::kNone});
  EXPECT_EQ(Aligned(scene), nullptr);
}

}  // namespace
}  // namespace lockstep::control
