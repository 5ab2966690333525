#include "operator/kube/lease_loop.h"

#include <algorithm>
#include <utility>

#include "base/text/json.h"

namespace lockstep::kube {
namespace {

constexpr Duration kReleaseTime = seconds(2);

template <typename T>
T ValueOr(const Json& object, const char* key, T otherwise) {
  auto found = object.find(key);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_same_v<T, std::string>) {
    return found->is_string() ? found->get<std::string>() : otherwise;
  } else {
    return found->is_number_integer() ? found->get<T>() : otherwise;
  }
}

}  // namespace

Result<LeaseObject> ReadLease(const std::string& body) {
  const Json json = ParseJson(body);
  if (!json.is_object() || !json.contains("metadata") || !json["metadata"].is_object()) {
    return Error::Invalid("the API server sent a Lease that cannot be read");
  }
  LeaseObject lease;
  lease.resource_version = ValueOr<std::string>(json["metadata"], "resourceVersion", "");
  const Json spec = json.contains("spec") && json["spec"].is_object() ? json["spec"] : Json({});
  LeaseRecord& record = lease.record;
  record.holder = ValueOr<std::string>(spec, "holderIdentity", "");
  record.duration = seconds(
      std::clamp<int64_t>(ValueOr<int64_t>(spec, "leaseDurationSeconds", 0), 0, int64_t{1} << 31));
  record.acquired = ValueOr<std::string>(spec, "acquireTime", "");
  record.renewed = ValueOr<std::string>(spec, "renewTime", "");
  record.transitions = ValueOr<int64_t>(spec, "leaseTransitions", 0);
  return lease;
}

LeaseLoop::Step LeaseLoop::Next(Time now, WallTime wall) {
  const auto wait = [](Time until) { return Step{.until = until, .request = {}, .timeout = {}}; };
  if (state_ == State::kHolding && now >= held_until_) state_ = State::kOver;
  if (state_ == State::kReleasing && now >= release_by_) state_ = State::kOver;
  if (state_ == State::kOver) return wait(kNever);
  if (now < next_at_) {
    return wait(state_ == State::kHolding ? std::min(next_at_, held_until_) : next_at_);
  }
  if (state_ == State::kWaiting && seen_ && MayTake(now)) {
    call_ = exists_ ? Call::kWrite : Call::kCreate;
  }
  sent_at_ = now;
  // One call may take what is left of the deadline: of a server that is as slow as that, no second
  // call would be answered either. A connection that is dead is found by the transport, sooner.
  Duration timeout = options_.renew_deadline;
  if (state_ == State::kHolding) timeout = held_until_ - now;
  if (state_ == State::kReleasing) timeout = release_by_ - now;
  return {.call = true, .until = {}, .request = RequestFor(wall), .timeout = timeout};
}

Status LeaseLoop::OnAnswer(const Result<Response>& answer, Time now) {
  const bool write = call_ != Call::kRead;
  if (!answer.ok()) return OnRefused(ErrorOfTransport(answer.error(), write), now);
  if (answer->status < 200 || answer->status >= 300) {
    return OnRefused(ErrorOfStatus(answer->status, answer->body, answer->retry_after, write), now);
  }
  auto lease = ReadLease(answer->body);
  if (!lease.ok()) {
    ApiError unread;
    unread.kind = ApiErrorKind::kDecode;
    unread.message = lease.error().message;
    return OnRefused(unread, now);
  }
  if (write) {
    OnWritten(*lease, now);
  } else {
    OnLease(*lease, now);
  }
  return {};
}

void LeaseLoop::Release(Time now) {
  const bool holds = state_ == State::kHolding;
  state_ = holds ? State::kReleasing : State::kOver;
  held_until_ = Time::zero();
  call_ = Call::kWrite;
  next_at_ = now;
  release_by_ = now + kReleaseTime;
}

bool LeaseLoop::MayTake(Time now) const {
  if (stale_) return false;
  const LeaseRecord& record = seen_->record;
  return record.holder.empty() || record.holder == options_.identity ||
         now >= seen_at_ + record.duration;
}

// When to ask next, after an answer that decided nothing.
void LeaseLoop::Plan(Time now) {
  call_ = Call::kRead;
  next_at_ = now + options_.watch_every;
  if (state_ != State::kWaiting) {
    call_ = Call::kWrite;
    next_at_ = now;
  } else if (seen_) {
    next_at_ = MayTake(now) ? now : std::min(next_at_, seen_at_ + seen_->record.duration);
  }
}

Request LeaseLoop::RequestFor(WallTime wall) {
  Request request;
  request.path = Path(kLeases, options_.name_space, options_.name);
  if (call_ == Call::kRead) return request;
  request.method = Method::kPut;
  if (call_ == Call::kCreate) {
    request.method = Method::kPost;
    request.path = Path(kLeases, options_.name_space);
  }
  request.body = Body(wall);
  return request;
}

std::string LeaseLoop::Body(WallTime wall) const {
  const LeaseRecord before = seen_ ? seen_->record : LeaseRecord{};
  const bool ours = before.holder == options_.identity;
  const std::string now = FormatMicroTime(wall);
  const bool releases = state_ == State::kReleasing;
  const Duration lasts = releases ? options_.linger : options_.duration;
  Json metadata = {{"name", options_.name}, {"namespace", options_.name_space}};
  if (call_ == Call::kWrite) metadata["resourceVersion"] = seen_->resource_version;
  const Json lease = {{"apiVersion", "coordination.k8s.io/v1"},
                      {"kind", "Lease"},
                      {"metadata", metadata},
                      {"spec",
                       {{"holderIdentity", lasts > Duration(0) ? options_.identity : ""},
                        {"leaseDurationSeconds", std::max<int64_t>(lasts / seconds(1), 1)},
                        {"acquireTime", ours && !before.acquired.empty() ? before.acquired : now},
                        {"renewTime", now},
                        {"leaseTransitions", before.transitions + (ours || !seen_ ? 0 : 1)}}}};
  return DumpJson(lease);
}

// Somebody's record, read.
void LeaseLoop::OnLease(const LeaseObject& lease, Time now) {
  if (!seen_ || seen_->resource_version != lease.resource_version) seen_at_ = now;
  exists_ = true;
  stale_ = false;
  seen_ = lease;
  const bool ours = lease.record.holder == options_.identity;
  if (state_ == State::kHolding && !ours) held_until_ = Time::zero();
  if (state_ != State::kWaiting && !ours) state_ = State::kOver;
  Plan(now);
}

// Our record, written.
void LeaseLoop::OnWritten(const LeaseObject& lease, Time now) {
  seen_ = lease;
  seen_at_ = now;
  exists_ = true;
  stale_ = false;
  if (state_ == State::kReleasing) {
    state_ = State::kOver;
    return;
  }
  held_until_ = sent_at_ + options_.renew_deadline;
  if (now < held_until_) state_ = State::kHolding;
  call_ = Call::kWrite;
  next_at_ = sent_at_ + options_.retry;
}

Status LeaseLoop::OnAbsent(const ApiError& error, Time now) {
  // A namespace that is missing says the same of a create.
  if (call_ == Call::kCreate) return OnFailed(error, now);
  if (state_ == State::kReleasing) state_ = State::kOver;
  exists_ = false;
  Plan(now);
  // A Lease that was never made belongs to whoever makes it first. The holder of a deleted Lease
  // may not know yet, so a contender that saw it waits as if it were still there.
  if (!seen_ || state_ == State::kHolding) {
    call_ = Call::kCreate;
    next_at_ = now;
  }
  return {};
}

Status LeaseLoop::OnRefused(const ApiError& error, Time now) {
  switch (error.kind) {
    case ApiErrorKind::kNotFound:
      return OnAbsent(error, now);
    case ApiErrorKind::kConflict:
    case ApiErrorKind::kAlreadyExists:
      // Another process of the identity has it, which is what it lingers for.
      if (state_ == State::kReleasing && options_.linger > Duration(0)) state_ = State::kOver;
      stale_ = true;
      call_ = Call::kRead;
      next_at_ = now;
      return {};
    default:
      return OnFailed(error, now);
  }
}

Status LeaseLoop::OnFailed(const ApiError& error, Time now) {
  const char* doing = call_ == Call::kRead ? "read: " : "written: ";
  // If the write was done after all, the next one meets a conflict.
  if (state_ == State::kWaiting) call_ = Call::kRead;
  next_at_ = now + (state_ == State::kWaiting ? options_.watch_every : options_.retry / 4);
  if (error.retry_after && state_ == State::kWaiting) {
    next_at_ = std::max(next_at_, now + *error.retry_after);
  }
  return Error::Unavailable("the Lease " + options_.name_space + "/" + options_.name +
                            " cannot be " + doing + error.message);
}

}  // namespace lockstep::kube
