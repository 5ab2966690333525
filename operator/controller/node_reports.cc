#include "operator/controller/node_reports.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/text/json.h"
#include "operator/kube/api.h"

namespace lockstep::control {
namespace {

constexpr const char* kReportsManager = "lockstep-node-reports";
constexpr Duration kRetry = seconds(10);

bool Shows(const kube::NodeView& node) {
  const std::string sign = std::string(kSuspectCondition) + "=True";
  return std::ranges::find(node.conditions, sign) != node.conditions.end();
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

Duration RetryAfter(int failures) {
  return kRetry * (int64_t{1} << std::clamp(failures - 1, 0, 8));
}

NodeReports::NodeReports(EventLoop* loop, kube::Client* client, NodeReportOptions options)
    : loop_(loop), client_(client), options_(options), timer_(loop, [this] { Step(); }) {}

void NodeReports::Lead(Time now) {
  leads_ = true;
  for (auto& [node, report] : reports_) report.until = now + options_.stay;
  timer_.WakeAt(now);
}

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
  if (found != reports_.end() || !Shows(*node)) return;
  // Of a leader before this one.
  Report& report = reports_[name];
  report.written = true;
  report.until = now + options_.stay;
  timer_.WakeAt(now);
}

void NodeReports::Step() {
  const Time now = BootTime();
  if (!leads_) return;
  Time next = kNever;
  for (auto& [node, report] : reports_) {
    if (now >= report.until && !report.removing) {
      report.removing = true;
      report.written = false;
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
  const kube::Request write{
      .method = kube::Method::kPatch,
      .path = kube::Path(kube::kNodes, "", node, "status",
                         kube::Query({{"fieldManager", kReportsManager}, {"force", "true"}})),
      .body = ConditionPatch(node, report.removing ? "" : report.evidence, report.message,
                             report.since),
      .content_type = "application/apply-patch+yaml"};
  client_->Call(write, lifetime_.Hop(loop_, [this, node](const kube::ApiResult<std::string>& done) {
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
    // A later Note has set another write's time.
    report.written = report.again == kNever;
    report.failures = 0;
  } else {
    if (report.failures++ == 0) {
      spdlog::warn("node {}: {} could not be written, and is tried again: {}", node,
                   kSuspectCondition, result.error().message);
    }
    report.again = now + RetryAfter(report.failures);
  }
  timer_.WakeAt(now);
}

}  // namespace lockstep::control
