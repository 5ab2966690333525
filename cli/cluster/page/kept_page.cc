#include "cli/cluster/page/kept_page.h"

#include <utility>

#include "base/text/json.h"
#include "cli/cluster/page/rights.h"

namespace lockstep::cli {
namespace {

constexpr int kViewFormat = 1;
constexpr const char* kUnreadable = "the kept page of this job cannot be read";

}  // namespace

KeptPage::KeptPage(EventLoop* loop, Connection* connection, PageStore::Page page,
                   std::function<void()> notify)
    : page_(std::move(page)),
      version_(static_cast<uint64_t>(BootTime() / milliseconds(1))),
      notify_(std::move(notify)) {
  handlers_.version = [this] { return view_.empty() ? 0 : version_; };
  handlers_.view = [this](uint64_t) { return view_; };
  const auto ask = [&](const Right& right, std::optional<bool> KeptPage::* answer) {
    AskRight(*connection, right, page_.job.name_space,
             lifetime_.Hop(loop, [this, answer](bool allowed) {
               this->*answer = allowed;
               Make();
             }));
  };
  ask({"get", "lockstep.dev", "trainingjobs", ""}, &KeptPage::may_see_);
  ask({"get", "", "pods", "log"}, &KeptPage::may_read_logs_);
}

void KeptPage::Make() {
  if (!may_see_ || !may_read_logs_) return;
  if (!*may_see_) {
    view_ = NoView(
        MissingRight("trainingjobs", "get", page_.job.name_space, "the kept page of this job is"),
        version_);
  } else {
    const Result<std::string> view = PageStore::ReadView(page_);
    view_ = view.ok() ? ShownView(*view, page_, *may_read_logs_, version_)
                      : NoView(kUnreadable, version_);
  }
  notify_();
}

std::string ShownView(const std::string& view, const PageStore::Page& page, bool with_logs,
                      uint64_t version) {
  OrderedJson shown = ParseOrderedJson(view);
  if (!shown.is_object()) return NoView(kUnreadable, version);
  OrderedJson notes = OrderedJson::array();
  notes.push_back("this page was kept when the job ended, at " + FormatWallTime(page.at));
  if (!with_logs) {
    shown["logs"] = OrderedJson::object();
    notes.push_back(MissingRight("pods/log", "get", page.job.name_space, "logs are"));
  }
  if (shown.contains("notes") && shown["notes"].is_array()) {
    for (const OrderedJson& each : shown["notes"]) notes.push_back(each);
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
