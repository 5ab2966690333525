#include "cli/cluster/page/kept_page.h"

#include <array>
#include <utility>

#include "base/text/json.h"
#include "cli/cluster/page/rights.h"

namespace lockstep::cli {
namespace {

constexpr int kViewFormat = 1;
constexpr const char* kUnreadable = "the kept page of this job cannot be read";
constexpr const char* kJobs = "trainingjobs";
constexpr const char* kPods = "pods";
constexpr const char* kEvents = "events";
constexpr std::array<Right, 3> kRights{{{"get", "lockstep.dev", kJobs, ""},
                                        {"get", "", kPods, "log"},
                                        {"list", "events.k8s.io", kEvents, ""}}};

}  // namespace

KeptPage::KeptPage(EventLoop* loop, Connection* connection, PageStore::Page page,
                   std::function<void()> notify)
    : loop_(loop),
      connection_(connection),
      page_(std::move(page)),
      version_(static_cast<uint64_t>(BootTime() / milliseconds(1))),
      notify_(std::move(notify)),
      retry_(loop, [this] { Ask(); }) {
  handlers_.version = [this] { return known() ? version_ : 0; };
  handlers_.view = [this](uint64_t) { return Json(); };
  Ask();
}

bool KeptPage::known() const { return allowed_.size() == kRights.size(); }

void KeptPage::Ask() {
  for (const Right& right : kRights) {
    if (allowed_.contains(right.resource)) continue;
    AskRight(*connection_, right, page_.job.name_space,
             lifetime_.Hop(loop_, [this, resource = right.resource](const Result<bool>& allowed) {
               if (!allowed.ok()) return retry_.WakeAt(BootTime() + kRetry);
               allowed_[resource] = *allowed;
               if (known()) notify_();
             }));
  }
}

std::string KeptPage::Json() const {
  if (!allowed_.at(kJobs)) {
    return NoView(MissingRight(kJobs, "get", page_.job.name_space, "the kept page of this job is"),
                  version_);
  }
  const Result<std::string> view = PageStore::ReadView(page_);
  if (!view.ok()) return NoView(kUnreadable, version_);
  return ShownView(*view, page_, {.logs = allowed_.at(kPods), .events = allowed_.at(kEvents)},
                   version_);
}

std::string ShownView(const std::string& view, const PageStore::Page& page, ShownParts parts,
                      uint64_t version) {
  OrderedJson shown = ParseOrderedJson(view);
  if (!shown.is_object()) return NoView(kUnreadable, version);
  OrderedJson notes = OrderedJson::array();
  notes.push_back("this page was kept when the job ended, at " + FormatWallTime(page.at));
  if (!parts.events) {
    shown["events"] = {{"from", 0}, {"dropped", 0}, {"items", OrderedJson::array()}};
    notes.push_back(MissingRight("events", "list", page.job.name_space, "events are"));
  }
  if (!parts.logs) {
    shown["logs"] = OrderedJson::object();
    notes.push_back(MissingRight("pods/log", "get", page.job.name_space, "logs are"));
  }
  if (shown.contains("notes") && shown["notes"].is_array()) {
    for (const OrderedJson& each : shown["notes"]) {
      if (each.is_string()) notes.push_back("when it was kept: " + each.get<std::string>());
    }
  }
  shown["notes"] = notes;
  shown["version"] = version;
  return DumpJson(shown);
}

std::string NoView(const std::string& why, uint64_t version) {
  return DumpJson(OrderedJson{{"format", kViewFormat},
                              {"version", version},
                              {"now", 0},
                              {"heard", nullptr},
                              {"live", false},
                              {"notes", OrderedJson::array({why})},
                              {"fleet", OrderedJson::array()}});
}

}  // namespace lockstep::cli
