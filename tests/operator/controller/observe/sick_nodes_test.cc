#include "operator/controller/observe/sick_nodes.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/operator/policy/make_job.h"

namespace lockstep::control {
namespace {

kube::NodeView Well() {
  kube::NodeView node;
  node.meta.name = "a";
  node.ready = true;
  node.conditions = {"MemoryPressure=False", "KernelDeadlock=False"};
  return node;
}

struct SignCase {
  const char* name;
  std::function<void(kube::NodeView&)> change;
  std::string why;
  bool schedulable = false;
};

class SickNodesTest : public testing::TestWithParam<SignCase> {};

TEST_P(SickNodesTest, SaysWhyANodeIsSickAndWhetherItMayBeChosen) {
  SickNodes nodes;
  kube::NodeView node = Well();
  GetParam().change(node);
  EXPECT_EQ(nodes.OnNode("a", &node, Time{}), !GetParam().why.empty());
  EXPECT_EQ(nodes.WhySick("a", {}), GetParam().why);
  EXPECT_EQ(nodes.Schedulable(10).size(), GetParam().schedulable ? 1U : 0U);
  EXPECT_EQ(nodes.well(), GetParam().why.empty() ? 1U : 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Signs, SickNodesTest,
    testing::Values(
        SignCase{"none", [](kube::NodeView&) {}, ""},
        SignCase{"cordon", [](kube::NodeView& node) { node.unschedulable = true; }, "is cordoned"},
        SignCase{"listedTaint",
                 [](kube::NodeView& node) { node.taints = {"nvidia.com/gpu-error:NoSchedule"}; },
                 "has taint nvidia.com/gpu-error"},
        SignCase{
            "listedTaintThatOnlyDeters",
            [](kube::NodeView& node) { node.taints = {"nvidia.com/gpu-error:PreferNoSchedule"}; },
            "has taint nvidia.com/gpu-error", true},
        SignCase{"taintByPrefix",
                 [](kube::NodeView& node) {
                   node.taints = {"aws-node-termination-handler/spot-itn:NoSchedule"};
                 },
                 "has taint aws-node-termination-handler/spot-itn"},
        SignCase{"anotherTaint",
                 [](kube::NodeView& node) { node.taints = {"nvidia.com/gpu:NoSchedule"}; }, ""},
        SignCase{"taintThatEvicts",
                 [](kube::NodeView& node) { node.taints = {"example.com/broken:NoExecute"}; },
                 "has taint example.com/broken"},
        SignCase{
            "taintOfKubernetes",
            [](kube::NodeView& node) { node.taints = {"node.kubernetes.io/not-ready:NoExecute"}; },
            ""},
        SignCase{"condition",
                 [](kube::NodeView& node) { node.conditions = {"KernelDeadlock=True"}; },
                 "has condition KernelDeadlock=True", true},
        SignCase{"conditionThatIsFalse",
                 [](kube::NodeView& node) { node.conditions = {"GpuHealthy=False"}; },
                 "has condition GpuHealthy=False", true},
        SignCase{"annotation", [](kube::NodeView& node) { node.suspect = "ECC\nerrors"; },
                 "is marked suspect: ECC errors", true},
        SignCase{"emptyAnnotation", [](kube::NodeView& node) { node.suspect = ""; },
                 "is marked suspect", true}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(SickNodes, ANodeThatRecoversOrGoesIsForgotten) {
  SickNodes nodes;
  kube::NodeView node = Well();
  EXPECT_FALSE(nodes.OnNode("a", &node, Time{}));
  node.unschedulable = true;
  EXPECT_TRUE(nodes.OnNode("a", &node, Time{}));
  EXPECT_FALSE(nodes.OnNode("a", &node, Time{})) << "nothing has changed";
  EXPECT_EQ(nodes.well(), 0U);
  node.suspect = "";
  nodes.OnNode("a", &node, Time{} + seconds(9));
  EXPECT_EQ(nodes.SickSince("a"), Time{}) << "since its first sign";
  node.suspect.reset();
  node.unschedulable = false;
  EXPECT_TRUE(nodes.OnNode("a", &node, Time{}));
  EXPECT_EQ(nodes.WhySick("a", {}), "");
  EXPECT_EQ(nodes.well(), 1U);
  node.suspect = "";
  nodes.OnNode("a", &node, Time{});
  EXPECT_TRUE(nodes.OnNode("a", nullptr, Time{}));
  EXPECT_EQ(nodes.WhySick("a", {}), "");
  EXPECT_TRUE(nodes.Schedulable(10).empty());
  EXPECT_EQ(nodes.well(), 0U);
}

TEST(SickNodes, ATaintThatTheJobToleratesByNameIsNoSickness) {
  SickNodes nodes;
  kube::NodeView node = Well();
  node.taints = {"nvidia.com/gpu-error:NoSchedule"};
  nodes.OnNode("a", &node, Time{});
  const auto why = [&](const char* tolerations) {
    return nodes.WhySick("a", ToleratedTaints(MakeJob::Yaml(tolerations)));
  };
  EXPECT_EQ(why("spec: {tolerations: [{key: nvidia.com/gpu-error, operator: Exists}]}"), "");
  EXPECT_NE(why("spec: {tolerations: [{operator: Exists}]}"), "");
  EXPECT_NE(why("spec: {tolerations: [{key: nvidia.com/gpu-error, tolerationSeconds: 60}]}"), "");
  EXPECT_NE(why("spec: {}"), "");
  node.unschedulable = true;
  nodes.OnNode("a", &node, Time{});
  EXPECT_EQ(why("spec: {tolerations: [{key: nvidia.com/gpu-error, operator: Exists}]}"),
            "is cordoned");
}

}  // namespace
}  // namespace lockstep::control
