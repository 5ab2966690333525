#include "operator/controller/node_reports.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text/json.h"
#include "operator/kube/api.h"

namespace lockstep::control {
namespace {

constexpr const char* kReportsManager = "lockstep-node-reports";
constexpr Duration kRetry = seconds(10);

bool Has(const std::vector<std::string>& signs, const std::string& sign) {
  return std::ranges::find(signs, sign) != signs.end();
}

bool Shows(const kube::NodeView& node, const std::string& taint) {
  return taint.empty() ? Has(node.conditions, std::string(kSuspectCondition) + "=True")
                       : Has(node.taints, std::string(kSuspectTaint) + ":" + taint);
}

}  // namespace

std::string ConditionPatch(const std::string& node, const std::string& evidence,
                           const std::string& message, WallTime since) {
  Json patch = {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", node}}}};
  patch["status"] = Json::object();
  if (!evidence.empty()) {
    const std::string at = FormatWallTime(since);
    patch["status"]["conditions"] = Json::array({{{"type", kSuspectCondition},
                                                  {"status", "True"},
                                                  {"reason", "Lockstep" + evidence},
                                                  {"message", message},
                                                  {"lastHeartbeatTime", at},
                                                  {"lastTransitionTime", at}}});
  }
  return DumpJson(patch);
}

Result<std::string> TaintPatch(std::string_view node, const std::string& effect, bool set) {
  const Json object = ParseJson(node);
  const Json none = Json::array();
  if (!object.is_object() || !object.contains("metadata") ||
      !object["metadata"].contains("resourceVersion")) {
    return Error::Invalid("the answer is no node");
  }
  const Json& version = object["metadata"]["resourceVersion"];
  const Json& spec = object.contains("spec") ? object["spec"] : none;
  const Json& taints = spec.is_object() && spec.contains("taints") ? spec["taints"] : none;
  const auto ours = std::ranges::find_if(taints, [](const Json& taint) {
    return taint.is_object() && taint.value("key", "") == kSuspectTaint;
  });
  if ((ours != taints.end()) == set) return std::string();
  Json patch =
      Json::array({{{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", version}}});
  if (!set) {
    const auto index = std::distance(taints.begin(), ours);
    patch.push_back({{"op", "remove"}, {"path", "/spec/taints/" + std::to_string(index)}});
    return DumpJson(patch);
  }
  const Json taint = {{"key", kSuspectTaint}, {"effect", effect}};
  if (taints.empty()) {
    patch.push_back({{"op", "add"}, {"path", "/spec/taints"}, {"value", Json::array({taint})}});
  } else {
    patch.push_back({{"op", "add"}, {"path", "/spec/taints/-"}, {"value", taint}});
  }
  return DumpJson(patch);
}

NodeReports::NodeReports(EventLoop* loop, kube::Client* client, NodeReportOptions options)
    : loop_(loop),
      client_(client),
      options_(std::move(options)),
      timer_(loop, [this] { Step(); }) {}

void NodeReports::Note(Time now, const std::string& node, const std::string& evidence,
                       const std::string& message) {
  if (!enabled()) return;
  Report& report = reports_[node];
  const bool same = report.evidence == evidence && report.message == message;
  report.until = now + options_.stay;
  report.removing = false;
  if (!same || !report.written) {
    report.evidence = evidence;
    report.message = message;
    report.since = WallNow();
    report.written = false;
    report.again = now;
  }
  timer_.WakeAt(now);
}

void NodeReports::OnNode(Time now, const std::string& name, const kube::NodeView* node) {
  if (!enabled()) return;
  const auto found = reports_.find(name);
  if (node == nullptr) {
    if (found != reports_.end()) reports_.erase(found);
    return;
  }
  if (found != reports_.end() || !Shows(*node, options_.taint)) return;
  // Of a leader before this one.
  Report& report = reports_[name];
  report.written = true;
  report.until = now + options_.stay;
  timer_.WakeAt(report.until);
}

void NodeReports::Step() {
  const Time now = BootTime();
  if (born_ == kNever) return timer_.WakeAt(now + kRetry);
  Time next = kNever;
  for (auto& [node, report] : reports_) {
    if (now >= report.until && !report.removing) {
      report.removing = true;
      report.again = now;
    }
    if (report.busy) continue;
    if (now >= report.again) {
      report.again = kNever;
      Write(node, report);
      continue;
    }
    next = std::min({next, report.again, report.removing ? kNever : report.until});
  }
  if (next != kNever) timer_.WakeAt(next);
}

void NodeReports::Write(const std::string& node, Report& report) {
  report.busy = true;
  if (options_.taint.empty()) return WriteCondition(node, report);
  const bool set = !report.removing;
  kube::Request read;
  read.path = kube::Path(kube::kNodes, "", node);
  client_->Call(read, lifetime_.Hop(loop_, [this, node, set](kube::ApiResult<std::string> answer) {
    if (!answer.ok()) return OnWritten(node, answer);
    const Result<std::string> patch = TaintPatch(*answer, options_.taint, set);
    if (!patch.ok() || patch->empty()) return OnWritten(node, std::string());
    const kube::Request write{.method = kube::Method::kPatch,
                              .path = kube::Path(kube::kNodes, "", node, "",
                                                 kube::Query({{"fieldManager", kReportsManager}})),
                              .body = *patch,
                              .content_type = "application/json-patch+json"};
    client_->Call(write, lifetime_.Hop(loop_, [this, node](kube::ApiResult<std::string> done) {
      OnWritten(node, done);
    }));
  }));
}

void NodeReports::WriteCondition(const std::string& node, const Report& report) {
  const kube::Request write{
      .method = kube::Method::kPatch,
      .path = kube::Path(kube::kNodes, "", node, "status",
                         kube::Query({{"fieldManager", kReportsManager}, {"force", "true"}})),
      .body = ConditionPatch(node, report.removing ? "" : report.evidence, report.message,
                             report.since),
      .content_type = "application/apply-patch+yaml"};
  client_->Call(write, lifetime_.Hop(loop_, [this, node](kube::ApiResult<std::string> done) {
    OnWritten(node, done);
  }));
}

void NodeReports::OnWritten(const std::string& node, const kube::ApiResult<std::string>& result) {
  const auto found = reports_.find(node);
  if (found == reports_.end()) return;
  Report& report = found->second;
  report.busy = false;
  const Time now = BootTime();
  const bool gone = !result.ok() && result.error().kind == kube::ApiErrorKind::kNotFound;
  if (gone || (result.ok() && report.removing)) {
    reports_.erase(found);
  } else if (result.ok()) {
    report.written = true;
  } else {
    spdlog::warn("node {}: {} could not be written: {}", node,
                 options_.taint.empty() ? kSuspectCondition : kSuspectTaint,
                 result.error().message);
    report.again = now + kRetry;
  }
  timer_.WakeAt(now);
}

}  // namespace lockstep::control
