#include "operator/controller/node_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/text/json.h"
#include "operator/kube/client.h"
#include "tests/base/loop_test_base.h"
#include "tests/operator/kube/scripted_transport.h"

namespace lockstep::control {
namespace {

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

TEST(NodeReports, FailedWritesAreTriedAgainLessAndLessOften) {
  EXPECT_EQ(RetryAfter(1), seconds(10));
  EXPECT_EQ(RetryAfter(2), seconds(20));
  EXPECT_EQ(RetryAfter(9), seconds(2560));
  EXPECT_EQ(RetryAfter(1000), seconds(2560));
}

class NodeReportsTest : public LoopTest {
 protected:
  // The next write at a node. null: none came.
  std::unique_ptr<kube::ScriptedTransport::Call> NextWrite() {
    std::unique_ptr<kube::ScriptedTransport::Call> call;
    RunUntil([&] {
      call = transport_->WaitForCall(std::chrono::milliseconds(1));
      return call != nullptr;
    });
    return call;
  }
  static bool Sets(const kube::Request& write, const std::string& node) {
    return write.path.find("/nodes/" + node + "/status") != std::string::npos &&
           write.body.find("LockstepSuspect") != std::string::npos;
  }
  static bool TakesBack(const kube::Request& write, const std::string& node) {
    return write.path.find("/nodes/" + node + "/status") != std::string::npos &&
           write.body.find("LockstepSuspect") == std::string::npos;
  }
  void Note(Time now, const std::string& node) { reports_.Note(now, node, "Lost", "seen"); }

  std::unique_ptr<kube::ScriptedTransport> own_ = std::make_unique<kube::ScriptedTransport>();
  kube::ScriptedTransport* transport_ = own_.get();
  kube::Client client_{std::move(own_)};
  NodeReports reports_{loop(), &client_, {.stay = hours(1)}};
};

kube::NodeView SuspectNode() {
  kube::NodeView node;
  node.conditions = {"LockstepSuspect=True"};
  return node;
}

TEST_F(NodeReportsTest, ANewLeaderCountsTheTimeOfAConditionFromItsBeginning) {
  const Time now = BootTime();
  const kube::NodeView node = SuspectNode();
  reports_.OnNode(now - hours(2), "a", &node);  // it stood by for two hours
  reports_.Lead(now);
  Settle();
  Note(now, "b");
  const auto call = NextWrite();
  ASSERT_NE(call, nullptr);
  EXPECT_TRUE(Sets(call->request, "b")) << "nothing was taken back before it";
  call->answer(kube::Response{200, "{}", {}});
}

TEST_F(NodeReportsTest, EvidenceOfOneNodeIsWrittenThoughAnotherShowsAnOldCondition) {
  reports_.Lead(BootTime());
  Note(BootTime(), "a");
  const kube::NodeView node = SuspectNode();
  reports_.OnNode(BootTime(), "b", &node);
  const auto call = NextWrite();
  ASSERT_NE(call, nullptr);
  EXPECT_TRUE(Sets(call->request, "a"));
  call->answer(kube::Response{200, "{}", {}});
}

TEST_F(NodeReportsTest, EvidenceThatComesWhileAConditionIsTakenBackSetsItAgain) {
  reports_.Lead(BootTime());
  Note(BootTime(), "a");
  auto call = NextWrite();
  ASSERT_NE(call, nullptr);
  call->answer(kube::Response{200, "{}", {}});
  Settle();
  Note(BootTime() - hours(2), "a");
  call = NextWrite();
  ASSERT_NE(call, nullptr);
  EXPECT_TRUE(TakesBack(call->request, "a"));
  Note(BootTime(), "a");
  call->answer(kube::Response{200, "{}", {}});
  call = NextWrite();
  ASSERT_NE(call, nullptr);
  EXPECT_TRUE(Sets(call->request, "a"));
  call->answer(kube::Response{200, "{}", {}});
}

}  // namespace
}  // namespace lockstep::control
