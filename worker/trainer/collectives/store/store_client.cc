#include "worker/trainer/collectives/store/store_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/thread.h"

namespace lockstep::collectives {
namespace {

constexpr Duration kBeat = milliseconds(250);
constexpr Duration kRetry = milliseconds(20);
constexpr Duration kLook = milliseconds(50);  // whether the ranks are waited for any more
// The kernel repeats an unanswered SYN ever more rarely; a new attempt begins again.
constexpr Duration kAttempt = seconds(3);
constexpr Duration kAnswerTime = seconds(2);
constexpr Duration kDrainTime = milliseconds(500);

std::chrono::steady_clock::time_point Steady(Time deadline) {
  const Time now = BootTime();
  // No sum with kNever: it would overflow.
  const Duration left = std::min<Duration>(deadline - now, hours(24 * 365));
  return std::chrono::steady_clock::now() + left;
}

Error GivenUp() { return Error::Unavailable("rank 0 no longer waits for the ranks"); }

}  // namespace

Result<std::unique_ptr<StoreClient>> StoreClient::Connect(const Options& options) {
  for (;;) {
    const Time patience = std::min(options.deadline, BootTime() + kAttempt);
    Result<UniqueFd> socket = ConnectTcp(options.address, options.port, patience);
    if (socket.ok()) {
      std::unique_ptr<StoreClient> client(new StoreClient(options, std::move(*socket)));
      Result<std::thread> thread = StartThread([raw = client.get()] { raw->Run(); });
      if (!thread.ok()) return thread.error();
      client->thread_ = std::move(*thread);
      if (const std::optional<Status> ready = client->AwaitReady()) {
        if (!ready->ok()) return ready->error();
        return client;
      }
    } else if (socket.error().kind != ErrorKind::kUnavailable) {
      return socket.error();
    }
    if (options.given_up && options.given_up()) return GivenUp();
    if (BootTime() + kRetry >= options.deadline) {
      return Error::Timeout(
          "rank 0 is missing: " +
          (socket.ok() ? AddressText(options.address, options.port) + " ended the connection"
                       : socket.error().message));
    }
    poll(nullptr, 0, PollTimeout(BootTime(), BootTime() + kRetry));
  }
}

StoreClient::StoreClient(Options options, UniqueFd socket)
    : options_(std::move(options)),
      socket_(std::move(socket)),
      last_heard_(BootTime()),
      reader_(kMessageLimit) {
  Queue({.type = MessageType::kHello,
         .rank = options_.rank,
         .first = static_cast<uint64_t>(options_.world),
         .key = std::string(kMagic),
         .value = options_.identity});
}

StoreClient::~StoreClient() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
  }
  wake_.Signal();
  if (thread_.joinable()) thread_.join();
}

std::optional<Status> StoreClient::AwaitReady() {
  {
    const MutexLock lock(&mutex_);
    const auto until = Steady(options_.deadline);
    while (!ready_ && !failure_ && std::chrono::steady_clock::now() < until) {
      if (!options_.given_up) {
        changed_.wait_until(mutex_, until);
        continue;
      }
      if (options_.given_up()) return Status(GivenUp());
      changed_.wait_until(mutex_, std::min(until, std::chrono::steady_clock::now() + kLook));
    }
    if (failure_ && !answered_) return std::nullopt;
    if (failure_) return Status(failure_->error);
    if (ready_) return Status();
  }
  return Status(Error::Timeout(AskWho()));
}

std::string StoreClient::AskWho() {
  Queue({.type = MessageType::kWho});
  const MutexLock lock(&mutex_);
  const auto until = std::chrono::steady_clock::now() + kAnswerTime;
  while (!missing_ && !failure_ && std::chrono::steady_clock::now() < until) {
    changed_.wait_until(mutex_, until);
  }
  if (failure_) return failure_->error.message;
  const std::string where = " to " + AddressText(options_.address, options_.port);
  if (!missing_) return "rank 0 does not answer at" + where.substr(3);
  return *missing_ + " of " + std::to_string(options_.world) + " did not come" + where;
}

Status StoreClient::Set(std::string_view key, std::string_view value) {
  if (key.size() > kMaxKey || value.size() > kMaxValue) {
    return Error::TooLarge("a key may have " + std::to_string(kMaxKey) + " bytes, a value " +
                           std::to_string(kMaxValue));
  }
  Queue({.type = MessageType::kSet, .key = std::string(key), .value = std::string(value)});
  const MutexLock lock(&mutex_);
  while (!set_.contains(key) && !failure_) changed_.wait(mutex_);
  if (failure_) return failure_->error;
  const uint64_t answer = set_.extract(set_.find(key)).mapped();
  if (answer == 1) return Error::Conflict("the key " + std::string(key) + " is set already");
  if (answer != 0) return Error::TooLarge("the store at rank 0 is full");
  return {};
}

Result<std::string> StoreClient::Get(std::string_view key, Time deadline) {
  if (key.size() > kMaxKey) return Error::TooLarge("the key is too long");
  Queue({.type = MessageType::kGet, .key = std::string(key)});
  const MutexLock lock(&mutex_);
  const auto until = Steady(deadline);
  for (;;) {
    if (const auto found = values_.find(key); found != values_.end()) return found->second;
    if (failure_) return failure_->error;
    if (std::chrono::steady_clock::now() >= until) {
      return Error::Timeout("no rank set the key " + std::string(key));
    }
    changed_.wait_until(mutex_, until);
  }
}

void StoreClient::Watch(std::function<Progress()> progress,
                        std::function<void(const Failure&)> failed) {
  const MutexLock calling(&calling_);
  std::optional<Failure> failure;
  {
    const MutexLock lock(&mutex_);
    failure = failure_;
  }
  progress_ = std::move(progress);
  failed_ = std::move(failed);
  if (failure) failed_(*failure);
}

void StoreClient::Unwatch() {
  const MutexLock calling(&calling_);
  progress_ = nullptr;
  failed_ = nullptr;
}

void StoreClient::Announce(const Failure& failure) {
  Queue({.type = MessageType::kFail,
         .rank = failure.rank,
         .first = static_cast<uint64_t>(failure.error.kind),
         .value = failure.error.message.substr(0, kMaxValue)});
  // The process may be about to exit.
  Drain();
}

void StoreClient::ReportLate(uint64_t number, int peer, const std::string& what) {
  Beat();  // what the store knows of this rank is then as fresh as the report
  Queue({.type = MessageType::kLate, .rank = peer, .first = number, .value = what});
}

void StoreClient::Bye() {
  Queue({.type = MessageType::kBye});
  Drain();
  const MutexLock lock(&mutex_);
  store_left_ = true;  // from here on the store's end is no failure
}

void StoreClient::Drain() {
  const MutexLock lock(&mutex_);
  const auto until = std::chrono::steady_clock::now() + kDrainTime;
  while (!drained_ && !failure_ && std::chrono::steady_clock::now() < until) {
    changed_.wait_until(mutex_, until);
  }
}

void StoreClient::Run() {
  Time next_beat = BootTime() + kBeat;
  for (;;) {
    bool writing = false;
    {
      const MutexLock lock(&mutex_);
      if (stop_) return;
      sending_ += std::exchange(out_, {});
    }
    Write();
    writing = !sending_.empty();
    pollfd fds[] = {
        {.fd = wake_.fd(), .events = POLLIN, .revents = 0},
        {.fd = socket_.get(),
         .events = static_cast<int16_t>(POLLIN | (writing ? POLLOUT : 0)),
         .revents = 0},
    };
    poll(fds, 2, PollTimeout(BootTime(), next_beat));
    if (fds[0].revents != 0) wake_.Clear();
    if (fds[1].revents != 0 && (fds[1].revents & ~POLLOUT) != 0 && !Read()) socket_.reset();
    if (BootTime() < next_beat) continue;
    next_beat = BootTime() + kBeat;
    Beat();
  }
}

bool StoreClient::Read() {
  char bytes[16 << 10];
  const ssize_t got = recv(socket_.get(), bytes, sizeof bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got > 0) {
    last_heard_ = BootTime();
    reader_.Feed({bytes, static_cast<size_t>(got)});
    for (;;) {
      Result<std::optional<Message>> next = reader_.Next();
      if (!next.ok()) break;
      if (!next->has_value()) return true;
      Handle(std::move(**next));
    }
  }
  Fail({Error::Unavailable("rank 0 is lost: its connection ended"), 0});
  return false;
}

void StoreClient::Write() {
  if (!socket_.valid()) sending_.clear();
  while (!sending_.empty()) {
    const ssize_t sent = send(socket_.get(), sending_.data(), sending_.size(), MSG_NOSIGNAL);
    if (sent <= 0) break;
    sending_.erase(0, static_cast<size_t>(sent));
  }
  const MutexLock lock(&mutex_);
  drained_ = sending_.empty() && out_.empty();
  if (drained_) changed_.notify_all();
}

void StoreClient::Beat() {
  Progress progress;
  {
    const MutexLock calling(&calling_);
    if (progress_) progress = progress_();
  }
  Queue({.type = MessageType::kBeat, .first = progress.issued, .second = progress.finished});
}

void StoreClient::Handle(Message message) {
  {
    const MutexLock lock(&mutex_);
    answered_ = true;
  }
  switch (message.type) {
    case MessageType::kRefused:
      Fail({Error::Denied("rank 0 at " + AddressText(options_.address, options_.port) +
                          " refused rank " + std::to_string(options_.rank) + ": " + message.value),
            options_.rank});
      return;
    case MessageType::kFailed:
      Fail({{ErrorKindOf(message.first), std::move(message.value)}, message.rank});
      return;
    default:
      break;
  }
  const MutexLock lock(&mutex_);
  if (message.type == MessageType::kReady) ready_ = true;
  if (message.type == MessageType::kBye) store_left_ = true;
  if (message.type == MessageType::kMissing) missing_ = std::move(message.value);
  if (message.type == MessageType::kSetDone) set_[message.key] = message.first;
  if (message.type == MessageType::kValue) {
    values_.insert_or_assign(std::move(message.key), std::move(message.value));
  }
  changed_.notify_all();
}

void StoreClient::Queue(const Message& message) {
  {
    const MutexLock lock(&mutex_);
    out_ += Encode(message);
    drained_ = false;
  }
  wake_.Signal();
}

void StoreClient::Fail(const Failure& failure) {
  const MutexLock calling(&calling_);
  {
    const MutexLock lock(&mutex_);
    if (failure_ || store_left_) return;
    failure_ = failure;
    changed_.notify_all();
  }
  if (failed_) failed_(failure);
}

}  // namespace lockstep::collectives
