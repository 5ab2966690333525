#include "cli/run/coordinator_link.h"

#include <algorithm>

namespace lockstep::cli {
namespace {

constexpr Duration kFirstRetry = milliseconds(1);
constexpr Duration kQuickRetry = milliseconds(4);  // at most, while machine 0 is young
constexpr Duration kYouth = seconds(1);
constexpr Duration kLastRetry = milliseconds(200);
constexpr Duration kPutRetry = milliseconds(100);
constexpr Duration kRefusedRetry = seconds(1);
constexpr Duration kPatience = seconds(2);  // beyond a long poll's own time
// Each machine's steps change the status twice a second; with many of them people read slower.
constexpr Duration kCalm = milliseconds(50);
constexpr size_t kManyMachines = 8;
constexpr int kOk = 200;
constexpr uint64_t kNoVersion = 0;

Duration PollLength(const Snapshot& snapshot) {
  return std::clamp<Duration>(snapshot.policy.machine_lost_after / 3, seconds(1), seconds(30));
}

}  // namespace

CoordinatorLink::CoordinatorLink(EventLoop* loop, const TlsPskContext* tls, AddressOf address_of,
                                 OnStatus on_status)
    : loop_(loop),
      address_of_(std::move(address_of)),
      on_status_(std::move(on_status)),
      poller_(tls),
      putter_(tls),
      retry_(kFirstRetry) {}

void CoordinatorLink::Work(const Snapshot& snapshot, const std::optional<core::GangWish>& wish,
                           Time now) {
  // Before a socket may be closed: its number can come again as somebody else's.
  Unwatch(&poller_fd_);
  Unwatch(&putter_fd_);
  const Machine& machine0 = snapshot.machines.front();
  if (machine0.attempt != attempt_ || !machine0.running) {
    if (asked_ == 0) poller_.Drop();
    putter_.Drop();
    if (machine0.attempt != attempt_) {
      attempt_ = machine0.attempt;
      version_ = kNoVersion;
      next_poll_ = now;
      next_put_ = now;
      retry_ = kFirstRetry;
      last_answer_ = now;
    }
  }
  if (auto answer = poller_.Advance(now)) OnAnswer(snapshot, *answer, now);
  Poll(snapshot, now);
  if (wish) Put(snapshot, *wish, now);
  Watch(&poller_, &poller_fd_);
  Watch(&putter_, &putter_fd_);
}

void CoordinatorLink::Poll(const Snapshot& snapshot, Time now) {
  if (poller_.busy() || now < next_poll_) return;
  Duration length = PollLength(snapshot);
  bool silent = now - last_answer_ > length + kPatience;
  asked_ = 0;
  if (silent && snapshot.machines.size() > 1) {
    asked_ = next_member_;
    next_member_ = next_member_ + 1 == snapshot.machines.size() ? 0 : next_member_ + 1;
  }
  if (!snapshot.machines[asked_].running) {
    next_poll_ = now + kLastRetry;
    return;
  }
  uint64_t after = asked_ == 0 ? version_ : kNoVersion;
  Duration patience = asked_ == 0 ? length + kPatience : kPatience;
  poller_.Begin(address_of_(asked_), GetStatusRequest(after, length), now + patience);
  if (auto answer = poller_.Advance(now)) OnAnswer(snapshot, *answer, now);
}

void CoordinatorLink::OnAnswer(const Snapshot& snapshot, const Result<HttpAnswer>& answer,
                               Time now) {
  next_poll_ = now + retry_;
  bool young = now - snapshot.machines.front().started < kYouth;
  retry_ = std::min(retry_ * 2, young ? kQuickRetry : kLastRetry);
  if (!answer.ok() || answer->status != kOk) return;
  Result<core::GangStatus> status = core::ParseGangStatus(answer->body);
  if (!status.ok() || status->job_uid != snapshot.job_uid) return;
  if (status->machine == 0) {
    version_ = status->version;
    last_answer_ = now;
    retry_ = kFirstRetry;
    bool calm = snapshot.machines.size() > kManyMachines &&
                status->phase == ToString(core::CoordinatorPhase::kRunning);
    next_poll_ = now + (calm ? kCalm : Duration::zero());
  }
  on_status_(*status);
}

void CoordinatorLink::Put(const Snapshot& snapshot, const core::GangWish& wish, Time now) {
  if (putter_.busy()) {
    std::optional<Result<HttpAnswer>> answer = putter_.Advance(now);
    if (!answer) return;
    next_put_ = now + kPutRetry;
    if (answer->ok() && (*answer)->status == kOk) {
      accepted_ = put_;
      accepted_attempt_ = put_attempt_;
    } else if (answer->ok()) {
      next_put_ = now + kRefusedRetry;
    }
  }
  if (!snapshot.machines.front().running || Accepted(wish, attempt_) || now < next_put_) return;
  put_ = core::ToJson(wish);
  put_attempt_ = attempt_;
  putter_.Begin(address_of_(0), PutGangRequest(put_), now + kPatience);
  if (auto answer = putter_.Advance(now)) next_put_ = now + kPutRetry;
}

bool CoordinatorLink::Accepted(const core::GangWish& wish, uint32_t attempt) const {
  return accepted_attempt_ == attempt && attempt != 0 && accepted_ == core::ToJson(wish);
}

Time CoordinatorLink::NextWake() const {
  Time wake = std::min(poller_.deadline(), putter_.deadline());
  if (!poller_.busy()) wake = std::min(wake, next_poll_);
  if (!putter_.busy() && accepted_ != put_) wake = std::min(wake, next_put_);
  return wake;
}

// Work() is called after every round, so there is nothing to do but to wake up.
void CoordinatorLink::Watch(HttpClient* client, int* watched) {
  *watched = client->fd();
  if (*watched >= 0) loop_->Watch(*watched, client->events(), [](uint32_t) {});
}

void CoordinatorLink::Unwatch(int* watched) {
  if (*watched >= 0) loop_->Unwatch(*watched);
  *watched = -1;
}

}  // namespace lockstep::cli
