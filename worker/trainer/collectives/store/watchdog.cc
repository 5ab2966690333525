#include "worker/trainer/collectives/store/watchdog.h"

#include <algorithm>

#include "base/thread.h"
#include "worker/trainer/collectives/store/blame.h"

namespace lockstep::collectives {
namespace {

constexpr Duration kLongestTick = milliseconds(250);
// How long the store may take to name the rank behind a transport's error or a late operation.
constexpr Duration kNameTime = milliseconds(400);
constexpr Duration kVerdictTime = seconds(2);

}  // namespace

Watchdog::Watchdog(Options options, FlightRecorder* recorder, Transport* transport,
                   StoreClient* store)
    : options_(std::move(options)),
      recorder_(recorder),
      transport_(transport),
      store_(store),
      thread_(StartThreadOrThrow([this] { Run(); })) {
  if (store_ == nullptr) return;
  store_->Watch([this] { return Progress{recorder_->last_issued(), recorder_->last_finished()}; },
                [this](const Failure& failure) { Post({failure, Source::kStore}); });
}

Watchdog::~Watchdog() {
  if (store_ != nullptr) store_->Unwatch();
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void Watchdog::Abort(const std::string& reason) {
  const std::string who = "rank " + std::to_string(options_.header.rank);
  Post({{Error::Unavailable(who + " aborted: " + reason), options_.header.rank}, Source::kAbort});
}

Error Watchdog::TransportFailed(const Error& error) {
  if (error.kind == ErrorKind::kBroken) {
    // Of its own machine nobody knows more, and the peers hear whose it is.
    const int rank = options_.header.rank;
    Post({{{error.kind, "rank " + std::to_string(rank) + ": " + error.message}, rank},
          Source::kHere});
  } else {
    Post({{error, -1}, Source::kTransport});
  }
  const MutexLock lock(&mutex_);
  while (!settled_ && !stop_) changed_.wait(mutex_);
  return settled_ ? *settled_ : error;
}

std::optional<Error> Watchdog::failure() const {
  const MutexLock lock(&mutex_);
  return settled_;
}

void Watchdog::Post(Event event) {
  const MutexLock lock(&mutex_);
  // The first error is kept, but any other error replaces a transport's, which knows least.
  if (settled_) return;
  if (event_ && (event_->source != Source::kTransport || event.source == Source::kTransport)) {
    return;
  }
  event_ = std::move(event);
  changed_.notify_all();
}

void Watchdog::Run() {
  const Duration tick =
      std::clamp<Duration>(options_.operation_timeout / 8, milliseconds(1), kLongestTick);
  for (;;) {
    std::optional<Event> event;
    {
      const MutexLock lock(&mutex_);
      if (!event_ && !stop_) changed_.wait_for(mutex_, tick);
      if (stop_ && !event_) return;
      event = event_;
    }
    if (!event) {
      CheckLate(BootTime());
      continue;
    }
    if (event->source == Source::kTransport) {
      AwaitBetterName();
      const MutexLock lock(&mutex_);
      event = event_;
    }
    if (event->source == Source::kTransport && StoreIsSilent()) {
      // A peer that gave up waiting for rank 0 closes its connections before it is named here.
      const std::optional<RecordedOperation> running = recorder_->Running();
      if (running) event = Event{OwnVerdict(*running), Source::kHere};
    }
    Settle(*event);
    return;
  }
}

void Watchdog::CheckLate(Time now) {
  const std::optional<RecordedOperation> running = recorder_->Running();
  if (!running || now - running->started < options_.operation_timeout) {
    asked_.reset();
    return;
  }
  if (store_ != nullptr && !asked_) {
    asked_ = now;
    const int peer = IsCollective(running->kind) ? -1 : running->peer;
    store_->ReportLate(running->number, peer, running->Describe());
    return;
  }
  // The store answers at once, unless rank 0 itself is the one that stopped.
  if (store_ == nullptr || now - *asked_ > kVerdictTime) {
    Post({OwnVerdict(*running), Source::kHere});
  }
}

Failure Watchdog::OwnVerdict(const RecordedOperation& late) const {
  const std::string waits =
      "rank " + std::to_string(options_.header.rank) + " waits for " + late.Describe() + ": ";
  if (store_ == nullptr) return {Error::Timeout(waits + "the backend does not end it"), 0};
  const bool silent = StoreIsSilent();
  return {
      Error::Timeout(waits + (silent ? "rank 0 stopped answering (stopped, or its machine hangs)"
                                     : "rank 0 does not report which rank is behind")),
      silent ? 0 : -1};
}

bool Watchdog::StoreIsSilent() const { return store_ != nullptr && store_->Silence() > kSilence; }

void Watchdog::AwaitBetterName() {
  if (store_ == nullptr) return;
  const auto until = std::chrono::steady_clock::now() + kNameTime;
  const MutexLock lock(&mutex_);
  while (!stop_ && event_->source == Source::kTransport &&
         std::chrono::steady_clock::now() < until) {
    changed_.wait_until(mutex_, until);
  }
}

void Watchdog::Settle(const Event& event) {
  if (options_.on_end) options_.on_end(recorder_->Standing());
  EvidenceHeader header = options_.header;
  header.reason = event.failure.error.message;
  header.blamed = event.failure.rank;
  Error error = event.failure.error;
  if (!options_.evidence_dir.empty()) {
    const Status wrote = recorder_->Write(options_.evidence_dir, header);
    if (!wrote.ok()) error.message += " (and no evidence: " + wrote.error().message + ")";
  }
  if (store_ != nullptr && event.source != Source::kStore) {
    store_->Announce({AtPeers(event.failure.error), event.failure.rank});
  }
  transport_->Abort();
  bool tell = true;
  {
    const MutexLock lock(&mutex_);
    settled_ = error;
    tell = !stop_ && event.source != Source::kAbort;
    changed_.notify_all();
  }
  if (tell && options_.on_failure) options_.on_failure(error);
}

}  // namespace lockstep::collectives
