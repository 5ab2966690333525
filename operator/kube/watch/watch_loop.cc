#include "operator/kube/watch/watch_loop.h"

#include <algorithm>
#include <utility>

#include "base/backoff.h"
#include "operator/kube/resource_version.h"

namespace lockstep::kube {
namespace {

// A stream that ends sooner without an event is a failure.
constexpr Duration kShortStream = seconds(1);
constexpr int kMinWatchSeconds = 300;
// No API server sends an object as long as this.
constexpr size_t kEndless = size_t{1} << 30;

ErrorKind KindOf(const ApiError& error) {
  switch (error.kind) {
    case ApiErrorKind::kNotFound:
      return ErrorKind::kNotFound;
    case ApiErrorKind::kForbidden:
    case ApiErrorKind::kUnauthorized:
      return ErrorKind::kDenied;
    case ApiErrorKind::kInvalid:
    case ApiErrorKind::kDecode:
      return ErrorKind::kInvalid;
    case ApiErrorKind::kTimeout:
      return ErrorKind::kTimeout;
    default:
      return ErrorKind::kUnavailable;
  }
}

// The server does not have the version that was asked for: it is compacted away (410), or newer
// than the backup that the server was restored from.
bool VersionIsLost(const ApiError& error) {
  return error.kind == ApiErrorKind::kGone || error.reason == "Expired" ||
         error.message.find("Too large resource version") != std::string::npos;
}

std::optional<EventKind> KindOf(const std::string& type) {
  if (type == "ADDED") return EventKind::kAdded;
  if (type == "MODIFIED") return EventKind::kModified;
  if (type == "DELETED") return EventKind::kDeleted;
  return std::nullopt;
}

Error TooLong() {
  return Error::TooLarge("an event of more than " + std::to_string(kMaxWatchLine >> 20) + " MiB");
}

}  // namespace

std::optional<EventKind> KindOf(WatchLine::Type type) {
  switch (type) {
    case WatchLine::Type::kAdded:
      return EventKind::kAdded;
    case WatchLine::Type::kModified:
      return EventKind::kModified;
    case WatchLine::Type::kDeleted:
      return EventKind::kDeleted;
    default:
      return std::nullopt;
  }
}

WatchLoop::WatchLoop(WatchOptions options, WatchSink* sink)
    : options_(std::move(options)),
      sink_(sink),
      random_(static_cast<uint32_t>(options_.seed)),
      page_size_(options_.page_size) {}

WatchLoop::Step WatchLoop::Next(Time now) {
  if (now < next_at_) return {.kind = Kind::kWait, .until = next_at_, .request = {}};
  if (state_ == State::kList) {
    return {.kind = Kind::kPage, .until = {}, .request = PageRequest()};
  }
  if (std::exchange(opened_before_, true)) sink_->Restarted();
  if (state_ == State::kInitial) sink_->Drop();
  lines_.Clear();
  passed_over_.reset();
  opened_at_ = last_byte_at_ = now;
  accepted_ = got_on_ = undelivered_ = false;
  return {.kind = Kind::kStream, .until = {}, .request = StreamRequest()};
}

bool WatchLoop::OnHead(const Response& head, Time now) {
  last_byte_at_ = now;
  accepted_ = head.status == 200;
  if (accepted_) return true;
  return OnApiError(ErrorOfStatus(head.status, head.body, head.retry_after, /*write=*/false), now);
}

bool WatchLoop::OnData(std::string_view data, Time now) {
  last_byte_at_ = now;
  if (now - opened_at_ >= options_.healthy) failures_ = 0;
  const std::optional<std::string_view> wanted = PassOver(data, now);
  bool goes_on = wanted.has_value();
  if (goes_on) lines_.Append(*wanted);
  while (goes_on) {
    auto line = lines_.Next();
    if (!line) break;
    goes_on = line->empty() || OnLine(*line, now);
  }
  if (goes_on && lines_.overflow()) {
    passed_over_.emplace(ObjectScan::Of::kWatchLine);
    passed_bytes_ = 0;
    const std::string begun(lines_.rest());
    lines_.Clear();
    goes_on = PassOver(begun, now).has_value();
  }
  // All that this piece brought, at once; what went before a fault in it counts.
  if (std::exchange(undelivered_, false)) sink_->Deliver(/*replace=*/false, version_);
  return goes_on;
}

void WatchLoop::OnEnd(const Status& status, Time now) {
  if (state_ == State::kInitial && accepted_ && !status.ok() &&
      status.error().kind == ErrorKind::kTimeout) {
    // A server without sendInitialEvents sends the state but never marks its end.
    state_ = State::kList;
    continue_.clear();
    return;
  }
  if (state_ == State::kFollow && accepted_ && (got_on_ || now - opened_at_ >= kShortStream)) {
    return;  // the usual end of a watch; the next one starts from version_ at once
  }
  Retry(status.ok() ? Error::Unavailable("the watch ended at once") : status.error(), std::nullopt,
        now);
}

Time WatchLoop::deadline() const {
  if (state_ != State::kInitial) return last_byte_at_ + options_.silence;
  return std::min(last_byte_at_ + options_.initial_silence, opened_at_ + options_.list_timeout);
}

Status WatchLoop::Silence() { return Error::Timeout("the stream has been silent for too long"); }

void WatchLoop::OnPage(Result<Response> answer, Time now) {
  if (!answer.ok()) {
    if (answer.error().kind == ErrorKind::kTooLarge && page_size_ > 1) {
      page_size_ = std::max(page_size_ / 4, 1U);
      return;  // the same page, smaller
    }
    return Retry(answer.error(), std::nullopt, now);
  }
  if (answer->status == 200) return OnPageBody(std::move(answer->body), now);
  OnApiError(ErrorOfStatus(answer->status, answer->body, answer->retry_after, /*write=*/false),
             now);
}

Request WatchLoop::StreamRequest() {
  const auto timeout = std::to_string(kMinWatchSeconds + random_() % kMinWatchSeconds);
  std::string query = options_.query.empty() ? "" : options_.query + "&";
  query += state_ == State::kInitial
               ? Query({{"sendInitialEvents", "true"}, {"resourceVersionMatch", "NotOlderThan"}})
               : Query({{"resourceVersion", version_}});
  query += "&" +
           Query({{"watch", "true"}, {"allowWatchBookmarks", "true"}, {"timeoutSeconds", timeout}});
  Request request;
  request.path = options_.path + "?" + query;
  return request;
}

Request WatchLoop::PageRequest() const {
  if (continue_.empty()) sink_->Drop();
  std::string query = options_.query.empty() ? "" : options_.query + "&";
  query += Query({{"limit", std::to_string(page_size_)}});
  if (!continue_.empty()) query += "&" + Query({{"continue", continue_}});
  Request request;
  request.path = options_.path + "?" + query;
  return request;
}

bool WatchLoop::OnLine(std::string_view line, Time now) {
  auto read = line.size() > kMaxWatchLine ? TooLong() : sink_->Line(line);
  if (!read.ok()) {
    ObjectScan scan(ObjectScan::Of::kWatchLine);
    scan.Feed(line);
    return OnUnreadable(scan, read.error(), now);
  }
  if (read->type == WatchLine::Type::kError) return OnApiError(read->error, now);
  if (read->type == WatchLine::Type::kBookmark) return OnBookmark(*read, now);
  return state_ == State::kInitial || Advance(read->resource_version, now);
}

// What of the data is not of the line that is passed over. Nothing: the stream is given up.
std::optional<std::string_view> WatchLoop::PassOver(std::string_view data, Time now) {
  if (!passed_over_) return data;
  const size_t end = std::min(data.find('\n'), data.size());
  passed_over_->Feed(data.substr(0, end));
  passed_bytes_ += end;
  if (!passed_over_->IsObject() || passed_bytes_ > kEndless) {
    Retry(TooLong(), std::nullopt, now);
    return std::nullopt;
  }
  if (end == data.size()) return "";
  const ObjectScan scan = *std::exchange(passed_over_, std::nullopt);
  if (!OnUnreadable(scan, TooLong(), now)) return std::nullopt;
  return data.substr(end + 1);
}

// One object's fault costs no other its events. What is no event is the stream's fault.
bool WatchLoop::OnUnreadable(const ObjectScan& scan, const Error& error, Time now) {
  const std::optional<EventKind> kind = KindOf(scan.type());
  if (!kind || !scan.NamesObject()) {
    Retry(error, std::nullopt, now);
    return false;
  }
  sink_->Unreadable(*kind, {scan.meta(), error.message});
  if (state_ == State::kInitial || !IsResourceVersion(scan.meta().resource_version)) return true;
  return Advance(scan.meta().resource_version, now);
}

bool WatchLoop::OnBookmark(const WatchLine& line, Time now) {
  if (state_ == State::kFollow) return Advance(line.resource_version, now);
  if (line.initial_events_end) {
    Synced(line.resource_version);
  }
  return true;
}

// False: the server went back in time; its next events may lack ones already delivered.
bool WatchLoop::Advance(const std::string& version, Time now) {
  auto order = CompareResourceVersions(version, version_);
  if (order && *order < 0) {
    sink_->Drop();
    undelivered_ = false;
    StartOver("the API server went back from version " + version_ + " to " + version, now);
    return false;
  }
  version_ = version;
  got_on_ = undelivered_ = true;
  return true;
}

// Ends the stream or page. Returns false, which OnData hands on: do not go on reading.
bool WatchLoop::OnApiError(const ApiError& error, Time now) {
  const Error reason{KindOf(error), error.message};
  if (state_ == State::kInitial && error.kind == ApiErrorKind::kInvalid) {
    state_ = State::kList;
    continue_.clear();
  } else if (VersionIsLost(error)) {
    StartOver(error.message, now);
  } else {
    // The type itself is gone (its CRD): what comes back of that name is another's.
    if (error.kind == ApiErrorKind::kNotFound && state_ == State::kFollow) state_ = State::kInitial;
    Retry(reason, error.retry_after, now);
  }
  return false;
}

void WatchLoop::OnPageBody(std::string body, Time now) {
  auto page = sink_->Page(std::move(body));
  if (!page.ok()) return Retry(page.error(), std::nullopt, now);
  continue_ = page->next;
  page_size_ = std::min(page_size_ * 2, options_.page_size);
  if (continue_.empty()) Synced(page->resource_version);
}

void WatchLoop::Synced(const std::string& version) {
  state_ = State::kFollow;
  version_ = version;
  got_on_ = true;
  page_size_ = options_.page_size;
  sink_->Deliver(/*replace=*/true, version_);
}

void WatchLoop::StartOver(const std::string& why, Time now) {
  if (state_ == State::kFollow) state_ = State::kInitial;
  continue_.clear();
  // At once, unless the state has been lost several times in a row.
  if (failures_ > 0) return Retry(Error::Unavailable(why), std::nullopt, now);
  ++failures_;
}

void WatchLoop::Retry(const Error& error, std::optional<Duration> retry_after, Time now) {
  continue_.clear();
  const Duration backoff = DoubledPause(options_.backoff_min, options_.backoff_max, failures_++);
  const auto jitter = std::chrono::duration_cast<Duration>(
      backoff * std::uniform_real_distribution<double>(0, 1)(random_));
  next_at_ = now + std::max(backoff + jitter, retry_after.value_or(Duration(0)));
  sink_->Problem(Explained(error));
}

Error WatchLoop::Explained(Error error) const {
  const char* doing = state_ == State::kFollow ? "following " : "reading ";
  error.message = doing + options_.path + ": " + error.message;
  return error;
}

}  // namespace lockstep::kube
