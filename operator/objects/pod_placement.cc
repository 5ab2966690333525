#include <algorithm>

#include "core/model/names.h"
#include "core/model/shortcuts.h"
#include "operator/objects/pod_parts.h"

namespace lockstep::control::pod {
namespace {

using core::OnePerNode;

constexpr const char* kNodeKey = "kubernetes.io/hostname";
constexpr int kWeight = 100;

Json Selector(std::string_view label) { return {{"matchLabels", {{"lockstep.dev/job", label}}}}; }

Json JobSelector(const core::TrainingJob& job) { return Selector(job.metadata.name); }

OnePerNode Resolved(const core::Spec& spec) {
  const OnePerNode asked = spec.placement.one_per_node;
  if (asked != OnePerNode::kAuto) return asked;
  // Two pods on one node could not use peer-to-peer between their GPUs.
  return core::AsksForGpus(spec) ? OnePerNode::kRequired : OnePerNode::kPreferred;
}

Json SpreadConstraint(const core::TrainingJob& job, OnePerNode one_per_node) {
  Json constraint = {{"topologyKey", kNodeKey},
                     {"maxSkew", 1},
                     {"labelSelector", JobSelector(job)},
                     {"whenUnsatisfiable", "ScheduleAnyway"}};
  if (one_per_node == OnePerNode::kRequired) {
    constraint["whenUnsatisfiable"] = "DoNotSchedule";
    // The skew is counted from the emptiest node, but from 0 while there are fewer nodes than
    // minDomains. Set this high it is always counted from 0; else twice as many machines as nodes
    // would be spread evenly.
    constraint["minDomains"] = 1'000'000;
  }
  return constraint;
}

// The API server takes one constraint for each of these pairs; the user's own comes first.
bool SamePlace(const Json& a, const Json& b) {
  return a.at("topologyKey") == b.at("topologyKey") &&
         a.at("whenUnsatisfiable") == b.at("whenUnsatisfiable");
}

void Spread(const core::TrainingJob& job, Json& spec) {
  const OnePerNode one_per_node = Resolved(job.spec);
  if (one_per_node == OnePerNode::kNone) return;
  Json constraint = SpreadConstraint(job, one_per_node);
  Json& constraints = ListAt(spec, "topologySpreadConstraints");
  const bool taken = std::any_of(constraints.begin(), constraints.end(),
                                 [&](const Json& other) { return SamePlace(other, constraint); });
  if (!taken) constraints.push_back(std::move(constraint));
}

// The nearest place weighs most. The one that is required is the farthest: it holds the others.
void KeepTogether(const core::TrainingJob& job, int weight, Json& spec) {
  const core::Placement& placement = job.spec.placement;
  if (placement.topology_key.empty()) return;
  std::vector<std::string> keys = {placement.topology_key};
  keys.insert(keys.end(), placement.topology_levels.begin(), placement.topology_levels.end());
  const auto term = [&](const std::string& key) {
    return Json{{"labelSelector", JobSelector(job)}, {"topologyKey", key}};
  };
  Json& affinity = ObjectAt(ObjectAt(spec, "affinity"), "podAffinity");
  if (placement.topology_mode == core::TopologyMode::kRequired) {
    ListAt(affinity, "requiredDuringSchedulingIgnoredDuringExecution").push_back(term(keys.back()));
    keys.pop_back();
  }
  for (const std::string& key : keys) {
    ListAt(affinity, "preferredDuringSchedulingIgnoredDuringExecution")
        .push_back({{"weight", weight}, {"podAffinityTerm", term(key)}});
    weight = std::max(weight / 2, 1);
  }
}

// `op`: In or NotIn.
void Prefer(const char* op, const std::vector<std::string>& nodes, int weight, Json& spec) {
  if (nodes.empty()) return;
  Json fields = Json::array();
  for (const std::string& node : nodes) {  // a requirement on a field takes one value
    fields.push_back({{"key", "metadata.name"}, {"operator", op}, {"values", Json::array({node})}});
  }
  ListAt(ObjectAt(ObjectAt(spec, "affinity"), "nodeAffinity"),
         "preferredDuringSchedulingIgnoredDuringExecution")
      .push_back({{"weight", weight}, {"preference", {{"matchFields", std::move(fields)}}}});
}

// Neither with a machine of the job on a node nor with another spare.
void KeepApart(const core::TrainingJob& job, Json& spec) {
  const OnePerNode one_per_node = Resolved(job.spec);
  if (one_per_node == OnePerNode::kNone) return;
  const bool required = one_per_node == OnePerNode::kRequired;
  Json& terms = ListAt(ObjectAt(ObjectAt(spec, "affinity"), "podAntiAffinity"),
                       required ? "requiredDuringSchedulingIgnoredDuringExecution"
                                : "preferredDuringSchedulingIgnoredDuringExecution");
  const std::string& name = job.metadata.name;
  for (const std::string& label : {name, std::string(name).append(core::kSpareSuffix)}) {
    Json term = {{"labelSelector", Selector(label)}, {"topologyKey", kNodeKey}};
    if (!required) term = {{"weight", kWeight}, {"podAffinityTerm", std::move(term)}};
    terms.push_back(std::move(term));
  }
}

}  // namespace

// A spare's node was chosen by all of this already, and its image is there: what draws a machine
// elsewhere weighs next to nothing beside it.
void Place(const core::TrainingJob& job, const std::vector<std::string>& avoid_nodes,
           const std::string& spare_node, Json& spec) {
  const bool has_place = !spare_node.empty();
  Spread(job, spec);
  KeepTogether(job, has_place ? 1 : kWeight, spec);
  Prefer("NotIn", avoid_nodes, has_place ? 1 : kWeight, spec);
  if (has_place) Prefer("In", {spare_node}, kWeight, spec);
}

void PlaceSpare(const core::TrainingJob& job, const std::vector<std::string>& avoid_nodes,
                Json& spec) {
  KeepTogether(job, kWeight, spec);
  KeepApart(job, spec);
  Prefer("NotIn", avoid_nodes, kWeight, spec);
}

}  // namespace lockstep::control::pod
