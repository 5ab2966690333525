#include "core/gang/diagnosis/stragglers.h"

#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::Condition;
using core::CoordinatorPhase;
using testing::HasSubstr;

const Condition* Straggling(Scene& scene) {
  return core::FindCondition(scene.status().conditions, "Straggler");
}

core::GangStatus& Say(Scene& scene, std::optional<core::Straggler> straggler) {
  scene.Pass(seconds(2));
  core::GangStatus& gang = scene.Report(CoordinatorPhase::kRunning);
  gang.generation = {1, 1};
  gang.straggler = std::move(straggler);
  return gang;
}

TEST(StragglerPolicy, NamesMachineNodeCostAndReason) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  EXPECT_EQ(Straggling(scene), nullptr);
  Say(scene, core::Straggler{1, 0.314, 40, "its CPU limit throttled it for 40% of the time"});
  const Decision decision = scene.Decide();
  scene.status() = *decision.status;
  ASSERT_NE(Straggling(scene), nullptr);
  EXPECT_EQ(Straggling(scene)->status, Condition::Value::kTrue);
  EXPECT_EQ(Straggling(scene)->message,
            "machine 1 on node node-1 is last at the gang's collectives: the others wait for it "
            "for 31% of each step; its CPU limit throttled it for 40% of the time");
  ASSERT_EQ(decision.events.size(), 1u);
  EXPECT_EQ(decision.events[0].reason, "Straggler");
  EXPECT_EQ(scene.status().reason, Straggling(scene)->message);
}

TEST(StragglerPolicy, IsSaidOnceThoughItsLatenessChanges) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  Say(scene, core::Straggler{1, 0.31, 40});
  scene.Settle();
  Say(scene, core::Straggler{1, 0.33, 45});
  EXPECT_TRUE(WritesNothing(scene.Decide()));
  Say(scene, core::Straggler{2, 0.33, 45});
  scene.Settle();
  EXPECT_THAT(Straggling(scene)->message, HasSubstr("machine 2"));
  Say(scene, std::nullopt);
  scene.Settle();
  EXPECT_EQ(Straggling(scene)->status, Condition::Value::kFalse);
}

TEST(StragglerPolicy, AMachineThatIsNotThereIsNone) {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  Say(scene, core::Straggler{7, 0.31, 40});
  scene.Settle();
  EXPECT_EQ(Straggling(scene), nullptr);
}

TEST(StragglerPolicy, IsReplacedWhenTheCoordinatorAsksAndChargesTheBudget) {
  Scene scene(MakeJob("gpt").Machines(3).With(
      [](core::Spec& spec) { spec.failure_policy.stragglers = core::Stragglers::kReplace; }));
  scene.Run();
  Say(scene, core::Straggler{1, 0.31, 40});
  scene.Settle();
  EXPECT_THAT(Straggling(scene)->message, HasSubstr("it is replaced at the next checkpoint"));
  EXPECT_EQ(scene.status().attempts.Of(1), 1u);
  Say(scene, core::Straggler{1, 0.31, 40}).machines[1].replace = true;
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.intent);
  EXPECT_EQ(decision.intent->attempts.Of(1), 2u);
  EXPECT_EQ(decision.intent->counters.replacements, 1u);
  EXPECT_EQ(decision.intent->attempts.Of(0), 1u);
}

}  // namespace
}  // namespace lockstep::control
