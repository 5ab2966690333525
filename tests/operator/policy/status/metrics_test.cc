#include "tests/operator/policy/scene.h"

namespace lockstep::control::metrics_test {
namespace {

using core::Condition;

Scene Runs(bool with_rule) {
  Scene scene(MakeJob("gpt").Machines(1));
  if (with_rule) {
    core::FailureRule rule;
    rule.metric = "loss";
    rule.is = core::MetricIs::kNotFinite;
    scene.spec().failure_policy.rules = {rule};
  }
  scene.Run();
  return scene;
}

void Note(Scene& scene, std::optional<core::Failure> noted) {
  scene.Running();
  scene.snapshot().coordinator->status.noted_metric = std::move(noted);
  scene.Settle();
}

const Condition* Broken(Scene& scene) {
  return core::FindCondition(scene.status().conditions, "MetricBroken");
}

core::Failure Nan(int64_t step) {
  core::Failure failure;
  failure.cause = core::Cause::kBrokenMetric;
  failure.step = step;
  failure.message = "rank 3 on machine 0: loss was NaN at step " + std::to_string(step);
  return failure;
}

TEST(BrokenMetric, IsAConditionAndAnEventWithMetricRankStepAndValue) {
  Scene scene = Runs(true);
  Note(scene, Nan(7));
  ASSERT_NE(Broken(scene), nullptr);
  EXPECT_EQ(Broken(scene)->status, Condition::Value::kTrue);
  EXPECT_EQ(Broken(scene)->message, "rank 3 on machine 0: loss was NaN at step 7");
  EXPECT_EQ(scene.status().reason, "rank 3 on machine 0: loss was NaN at step 7");
  EXPECT_EQ(scene.status().state, core::JobState::kRunning);
}

TEST(BrokenMetric, EndsWithTheGenerationThatReportedIt) {
  Scene scene = Runs(true);
  Note(scene, Nan(7));
  Note(scene, std::nullopt);
  EXPECT_EQ(Broken(scene)->status, Condition::Value::kFalse);
}

TEST(BrokenMetric, IsNoConditionOfAJobWithoutSuchARule) {
  Scene scene = Runs(false);
  Note(scene, std::nullopt);
  EXPECT_EQ(Broken(scene), nullptr);
}

}  // namespace
}  // namespace lockstep::control::metrics_test
