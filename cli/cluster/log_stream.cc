#include "cli/cluster/log_stream.h"

#include <cstdio>
#include <utility>

#include "core/model/shortcuts.h"
#include "operator/kube/api.h"

namespace lockstep::cli {
namespace {

constexpr int kOk = 200;
// How long a stream may be silent. A job may print nothing for long, but a dead connection must
// end.
constexpr Duration kSilence = minutes(10);
constexpr size_t kMostKept = size_t{64} << 20;  // bytes of a tail

std::string PathOf(const PodLog& what, const LogFilter& filter) {
  std::string query = kube::Query({{"container", core::kWorkerContainer}, {"timestamps", "true"}});
  if (what.follow) query += "&follow=true";
  // The filter comes behind: lines that it drops would count.
  if (what.tail && filter.passes_all()) {
    query += "&" + kube::Query({{"tailLines", std::to_string(*what.tail)}});
  }
  if (what.from && !what.behind) {
    query += "&" + kube::Query({{"tailLines", std::to_string(*what.from)}});
  }
  if (what.behind) query += "&" + kube::Query({{"sinceTime", FormatWallTime(*what.behind)}});
  return kube::Path(kube::kPods, what.name_space, what.pod, "log", query);
}

}  // namespace

LogSink ToStandardOutput() {
  return {.line =
              [](std::optional<WallTime>, std::string_view line) {
                std::fwrite(line.data(), 1, line.size(), stdout);
                std::fputc('\n', stdout);
              },
          .pause = [] { std::fflush(stdout); }};
}

LogStream::LogStream(kube::Transport* transport, PodLog what, LogFilter filter, LogSink sink,
                     OnEnd on_end)
    : what_(std::move(what)), filter_(filter), sink_(std::move(sink)), last_(what_.behind) {
  kube::Request request;
  request.path = PathOf(what_, filter_);
  stream_ = transport->Open(std::move(request), kSilence,
                            {.on_head = [this](const kube::Response& head) { head_ = head; },
                             .on_data = [this](std::string_view data) { OnData(data); },
                             .on_end =
                                 [this, on_end = std::move(on_end)](const Status& status) {
                                   OnData("\n");  // the last line may lack its end
                                   WriteKept();
                                   on_end(Outcome(status), last_);
                                 }});
}

void LogStream::OnData(std::string_view data) {
  lines_.Append(data);
  while (const auto line = lines_.Next()) PrintLine(*line);
  if (lines_.overflow()) lines_.Clear();
  sink_.pause();
}

void LogStream::PrintLine(std::string_view line) {
  if (line.empty()) return;
  const StampedLine stamped = SplitStamp(line);
  if (stamped.at) {
    if (what_.behind && *stamped.at <= *what_.behind) return;
    last_ = stamped.at;
  }
  if (!filter_.Passes(stamped.text)) return;
  if (!what_.tail) return sink_.line(stamped.at, stamped.text);
  kept_.emplace_back(stamped.text);
  kept_bytes_ += stamped.text.size();
  while (kept_.size() > *what_.tail || (kept_bytes_ > kMostKept && kept_.size() > 1)) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
  }
}

void LogStream::WriteKept() {
  for (const std::string& text : kept_) sink_.line(std::nullopt, text);
  kept_.clear();
  sink_.pause();
}

Status LogStream::Outcome(const Status& status) const {
  if (!status.ok() || head_.status == kOk) return status;
  const kube::ApiError error =
      kube::ErrorOfStatus(head_.status, head_.body, std::nullopt, /*write=*/false);
  if (error.kind == kube::ApiErrorKind::kForbidden) return Error::Denied(error.message);
  if (error.kind == kube::ApiErrorKind::kNotFound) return Error::NotFound(error.message);
  return Error::Unavailable(error.message);
}

}  // namespace lockstep::cli
