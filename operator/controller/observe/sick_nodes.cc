#include "operator/controller/observe/sick_nodes.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/text/limited_text.h"

namespace lockstep::control {
namespace {

constexpr size_t kLongestReason = 100;

bool IsListedBy(std::string_view pattern, std::string_view key) {
  if (pattern.ends_with('*')) return key.starts_with(pattern.substr(0, pattern.size() - 1));
  return key == pattern;
}

// Kubernetes' own taints have rules of their own: a cordon, silence, pressure.
bool IsKubernetes(std::string_view key) { return key.starts_with("node.kubernetes.io/"); }

// "key:Effect" as NodeView has it.
std::pair<std::string_view, std::string_view> SplitTaint(std::string_view taint) {
  const size_t colon = taint.rfind(':');
  return {taint.substr(0, colon), taint.substr(colon + 1)};
}

bool KeepsPodsAway(std::string_view taint) {
  const std::string_view effect = SplitTaint(taint).second;
  return effect == "NoSchedule" || effect == "NoExecute";
}

bool MayRun(const kube::NodeView& node) {
  return node.ready && !node.unschedulable && !node.unreachable && !node.out_of_service;
}

std::string TextAt(const core::Node& map, std::string_view key) {
  const core::Node* found = map.Find(key);
  return found == nullptr ? "" : found->text();
}

}  // namespace

std::set<std::string> ToleratedTaints(const core::Node& pod_template) {
  std::set<std::string> keys;
  const core::Node* tolerations = pod_template.Walk({"spec", "tolerations"});
  if (tolerations == nullptr) return keys;
  for (const core::Node& each : tolerations->items()) {
    if (each.Find("tolerationSeconds") != nullptr) continue;
    if (const std::string key = TextAt(each, "key"); !key.empty()) keys.insert(key);
  }
  return keys;
}

std::vector<SickNodes::Sign> SickNodes::SignsOf(const kube::NodeView& node) const {
  std::vector<Sign> found;
  if (node.unschedulable && signs_.cordon) found.push_back({"", "is cordoned"});
  for (const std::string& taint : node.taints) {
    const auto [key, effect] = SplitTaint(taint);
    const bool listed = std::ranges::any_of(
        signs_.taints,
        [&, of = key](const std::string& pattern) { return IsListedBy(pattern, of); });
    // Pods that do not tolerate it are evicted; the others may be for a time.
    const bool evicts = effect == "NoExecute" && !IsKubernetes(key);
    if (listed || evicts) {
      found.push_back(
          {std::string(key), "has taint " + core::FirstBytes(std::string(key), kLongestReason)});
    }
  }
  for (const std::string& condition : node.conditions) {
    if (std::ranges::find(signs_.conditions, condition) == signs_.conditions.end()) continue;
    found.push_back({"", "has condition " + core::FirstBytes(condition, kLongestReason)});
  }
  if (node.suspect) {
    const std::string why = core::FirstBytes(core::OneLine(*node.suspect), kLongestReason);
    found.push_back({"", "is marked suspect" + (why.empty() ? "" : ": " + why)});
  }
  return found;
}

bool SickNodes::OnNode(const std::string& name, const kube::NodeView* node, Time now) {
  std::vector<Sign> signs = node == nullptr ? std::vector<Sign>() : SignsOf(*node);
  const bool may_run = node != nullptr && MayRun(*node);
  const bool may_choose = may_run && std::ranges::none_of(node->taints, KeepsPodsAway);
  well_.erase(name);
  schedulable_.erase(name);
  if (signs.empty() && may_run) well_.insert(name);
  if (!signs.empty() && may_choose) schedulable_.insert(name);
  const auto known = sick_.find(name);
  const bool changed = known == sick_.end() ? !signs.empty() : known->second != signs;
  if (signs.empty()) {
    if (known != sick_.end()) sick_.erase(known);
    since_.erase(name);
  } else {
    sick_[name] = std::move(signs);
    since_.emplace(name, now);
  }
  return changed;
}

std::string SickNodes::WhySick(const std::string& node,
                               const std::set<std::string>& tolerated) const {
  const auto found = sick_.find(node);
  if (found == sick_.end()) return "";
  for (const Sign& sign : found->second) {
    if (sign.taint.empty() || !tolerated.contains(sign.taint)) return sign.what;
  }
  return "";
}

Time SickNodes::SickSince(const std::string& node) const {
  const auto found = since_.find(node);
  return found == since_.end() ? Time{} : found->second;
}

std::vector<std::string> SickNodes::Schedulable(size_t most) const {
  std::vector<std::string> nodes;
  for (const std::string& node : schedulable_) {
    if (nodes.size() == most) break;
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace lockstep::control
