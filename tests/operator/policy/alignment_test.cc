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

TEST(Alignment, IsNotSpokenOfWhereNothingIsToBeBound) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().topology.bind = core::Bind::kNone;
  scene.Run();
  Bind(scene, {core::Binding::kNone, core::Binding::kNone});
  EXPECT_EQ(Aligned(scene), nullptr);
}

}  // namespace
}  // namespace lockstep::control
