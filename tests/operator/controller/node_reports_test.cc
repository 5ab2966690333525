#include "operator/controller/node_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text/json.h"

namespace lockstep::control {
namespace {

using testing::HasSubstr;

TEST(NodeReports, ConditionHasTheEvidenceAndNothingElseOfTheNode) {
  const Json patch = ParseJson(ConditionPatch("n1", "Lost", "a job lost a machine here", {}));
  EXPECT_EQ(patch["metadata"]["name"], "n1");
  ASSERT_EQ(patch["status"]["conditions"].size(), 1U);
  const Json& condition = patch["status"]["conditions"][0];
  EXPECT_EQ(condition["type"], "LockstepSuspect");
  EXPECT_EQ(condition["status"], "True");
  EXPECT_EQ(condition["reason"], "LockstepLost");
  EXPECT_EQ(patch.size(), 4U) << "no spec, no labels";
}

TEST(NodeReports, ConditionIsTakenBackByAnApplyWithoutIt) {
  const Json patch = ParseJson(ConditionPatch("n1", "", "", {}));
  EXPECT_TRUE(patch["status"].empty());
}

TEST(NodeReports, TaintIsAddedToThoseThatAreThere) {
  const char* bare = R"({"metadata": {"resourceVersion": "7"}, "spec": {}})";
  const Result<std::string> first = TaintPatch(bare, "NoSchedule", true);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(*first, HasSubstr(R"("path":"/spec/taints",)"));
  EXPECT_THAT(*first, HasSubstr(R"("value":"7")")) << "of the node that was read";
  const char* tainted = R"({"metadata": {"resourceVersion": "7"},
                            "spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})";
  EXPECT_THAT(*TaintPatch(tainted, "NoSchedule", true), HasSubstr(R"("path":"/spec/taints/-")"));
}

TEST(NodeReports, OnlyOurTaintIsRemoved) {
  const char* node = R"({"metadata": {"resourceVersion": "7"}, "spec": {"taints": [
      {"key": "a", "effect": "NoExecute"}, {"key": "lockstep.dev/suspect", "effect": "NoSchedule"}]}})";
  EXPECT_EQ(*TaintPatch(node, "NoSchedule", true), "") << "it is there";
  EXPECT_THAT(*TaintPatch(node, "NoSchedule", false),
              HasSubstr(R"("op":"remove","path":"/spec/taints/1")"));
}

TEST(NodeReports, AnAnswerThatIsNoNodeIsNotPatched) {
  EXPECT_FALSE(TaintPatch("[]", "NoSchedule", true).ok());
  EXPECT_FALSE(TaintPatch(R"({"metadata": {}})", "NoSchedule", true).ok());
}

}  // namespace
}  // namespace lockstep::control
