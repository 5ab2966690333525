#include <array>
#include <vector>

#include "core/model/roles.h"
#include "core/plan/frameworks/framework_plan.h"
#include "core/plan/plan.h"

namespace lockstep::core {
namespace {

constexpr auto kTensorFlowVariables = std::to_array<OwnVariable>({
    {"TF_CONFIG", UsersValue::kRefused},
});

constexpr auto kTensorFlowLeftovers = std::to_array<std::string_view>({
    "TF_CONFIG",
});

// The form of tf.distribute.cluster_resolver.TFConfigClusterResolver: without roles a cluster of
// workers only. An evaluator is a separate task that is not in the cluster.
void SetForTensorFlow(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  if (id.endpoints.empty()) return;
  const int64_t own = RankOf(spec, id.machine, id.local_rank);
  std::string cluster;
  const std::vector<Role> workers = {
      {.name = std::string(kTensorFlowWorker), .count = static_cast<int32_t>(id.endpoints.size())}};
  const std::vector<Role>& roles = spec.roles.empty() ? workers : spec.roles;
  size_t rank = 0;
  for (const Role& role : roles) {
    std::string tasks;
    for (int32_t i = 0; i < role.count && rank < id.endpoints.size(); ++i, ++rank) {
      tasks.append(i == 0 ? "\"" : ", \"").append(id.endpoints[rank]).append("\"");
    }
    if (role.name == kTensorFlowEvaluator) continue;
    cluster.append(cluster.empty() ? "\"" : ", \"").append(role.name);
    cluster.append("\": [").append(tasks).append("]");
  }
  const RoleRank task = RoleOf(spec, own).value_or(RoleRank{workers.data(), own});
  env.Set("TF_CONFIG", R"({"cluster": {)" + cluster + R"(}, "task": {"type": ")" + task.role->name +
                           R"(", "index": )" + std::to_string(task.index) + "}}");
}

}  // namespace

const FrameworkPlan& TensorFlowPlan() {
  static constexpr FrameworkPlan kPlan{.variables = kTensorFlowVariables,
                                       .leftovers = kTensorFlowLeftovers,
                                       .set_for_rank = SetForTensorFlow,
                                       .set_always = nullptr};
  return kPlan;
}

}  // namespace lockstep::core
