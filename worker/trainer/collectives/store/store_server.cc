#include "worker/trainer/collectives/store/store_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/thread.h"
#include "worker/trainer/collectives/store/blame.h"

namespace lockstep::collectives {
namespace {

constexpr Duration kTick = milliseconds(500);
constexpr size_t kMostStrangers = 64;  // beside the ranks that are still to come
// How long the peer of a connection that is being closed may take to read the last message.
constexpr Duration kLastWords = seconds(5);
constexpr size_t kMostQueued = 16 << 20;  // bytes a slow rank may leave unread
constexpr size_t kMostStored = 256 << 20;

Message FailedMessage(const Failure& failure) {
  return {.type = MessageType::kFailed,
          .rank = failure.rank,
          .first = static_cast<uint64_t>(failure.error.kind),
          .value = failure.error.message.substr(0, kMaxValue)};
}

}  // namespace

Result<std::unique_ptr<StoreServer>> StoreServer::Start(Options options) {
  Result<UniqueFd> listener = ListenTcp(options.address, options.port, options.world + 128);
  if (!listener.ok()) return listener.error();
  std::unique_ptr<StoreServer> server(new StoreServer(std::move(options), std::move(*listener)));
  Result<std::thread> thread = StartThread([raw = server.get()] { raw->Run(); });
  if (!thread.ok()) return thread.error();
  server->thread_ = std::move(*thread);
  return server;
}

StoreServer::StoreServer(Options options, UniqueFd listener)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      ranks_(static_cast<size_t>(options_.world)) {}

StoreServer::~StoreServer() {
  {
    const MutexLock lock(&mutex_);
    stop_ = true;
  }
  wake_.Signal();
  if (thread_.joinable()) thread_.join();
  if (witness_.joinable()) witness_.join();
}

void StoreServer::Leave(Time deadline) {
  const auto until = std::chrono::steady_clock::now() + (deadline - BootTime());
  mutex_.lock();
  while (!all_left_ && std::chrono::steady_clock::now() < until) {
    changed_.wait_until(mutex_, until);
  }
  leave_ = true;
  wake_.Signal();
  const auto bye = std::chrono::steady_clock::now() + seconds(1);
  while (!said_bye_ && std::chrono::steady_clock::now() < bye) changed_.wait_until(mutex_, bye);
  mutex_.unlock();
}

void StoreServer::Run() {
  for (;;) {
    {
      const MutexLock lock(&mutex_);
      if (stop_) break;
    }
    Poll();
    Tick();
    Sweep();
  }
  for (Connection& connection : connections_) Write(connection);
}

void StoreServer::Poll() {
  std::vector<pollfd> fds;
  fds.reserve(connections_.size() + 2);
  fds.push_back({.fd = wake_.fd(), .events = POLLIN, .revents = 0});
  fds.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  for (const Connection& connection : connections_) {
    const int events = POLLIN | (connection.out.empty() ? 0 : POLLOUT);
    fds.push_back(
        {.fd = connection.fd.get(), .events = static_cast<int16_t>(events), .revents = 0});
  }
  const Time now = BootTime();
  Time until = AllCame() ? now + kTick : std::min(now + kTick, options_.deadline);
  if (late_ && !failed_) until = std::min(until, late_until_);
  if (poll(fds.data(), fds.size(), std::max(1, PollTimeout(now, until))) < 0) return;
  ForgiveOwnPause();
  if (fds[0].revents != 0) wake_.Clear();
  // Nothing leaves the list before Sweep(), and Accept() only appends.
  size_t at = 2;
  const size_t polled = fds.size();
  for (Connection& connection : connections_) {
    if (at == polled) break;
    const int events = fds[at++].revents;
    if ((events & POLLOUT) != 0) Write(connection);
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) Read(connection);
  }
  if (fds[1].revents != 0) Accept();
}

void StoreServer::Accept() {
  for (;;) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) return;
    SetTcpOptions(fd.get());
    const auto stranger = [](const Connection& c) { return c.rank < 0 && !c.closing; };
    if (static_cast<size_t>(std::count_if(connections_.begin(), connections_.end(), stranger)) >=
        kMostStrangers + ranks_.size() - came_) {
      std::find_if(connections_.begin(), connections_.end(), stranger)->closing = true;
    }
    connections_.emplace_back(std::move(fd), BootTime());
  }
}

void StoreServer::Read(Connection& from) {
  char bytes[16 << 10];
  const ssize_t got = recv(from.fd.get(), bytes, sizeof bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    Ended(from);
    return;
  }
  if (from.closing) return;  // waits only until the peer has read the last message
  from.reader.Feed({bytes, static_cast<size_t>(got)});
  while (!from.closing) {
    Result<std::optional<Message>> next = from.reader.Next();
    if (!next.ok()) {
      Ended(from);
      return;
    }
    if (!next->has_value()) return;
    Handle(from, std::move(**next));
  }
}

void StoreServer::Write(Connection& to) {
  while (!to.out.empty()) {
    const ssize_t sent = send(to.fd.get(), to.out.data(), to.out.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // an end of the connection is Read's to see
    to.out.erase(0, static_cast<size_t>(sent));
  }
}

void StoreServer::Handle(Connection& from, Message message) {
  if (from.rank < 0) {
    Greet(from, message);
    return;
  }
  Rank& rank = ranks_[static_cast<size_t>(from.rank)];
  switch (message.type) {
    case MessageType::kSet:
      Set(from, std::move(message));
      return;
    case MessageType::kGet:
      Get(from, message.key);
      return;
    case MessageType::kBeat:
      rank.issued = message.first;
      rank.finished = message.second;
      rank.beat = BootTime();
      Send(from, {.type = MessageType::kPulse});
      return;
    case MessageType::kWho:
      Send(from,
           {.type = MessageType::kMissing, .value = Missing().empty() ? "" : NameRanks(Missing())});
      return;
    case MessageType::kLate:
      Late(from, message);
      return;
    case MessageType::kFail:
      Fail({{ErrorKindOf(message.first), std::move(message.value)}, message.rank});
      return;
    case MessageType::kBye:
      rank.left = true;
      return;
    default:
      Ended(from);  // a rank never says this
  }
}

void StoreServer::Greet(Connection& from, const Message& hello) {
  if (hello.type != MessageType::kHello || hello.key != kMagic) {
    from.closing = true;
    return;
  }
  if (hello.value != options_.identity) {
    Refuse(from, "this is " + options_.identity + ", not " + hello.value +
                     ": a rank of another job or generation");
    return;
  }
  if (hello.first != ranks_.size()) {
    Refuse(from, "this world has " + std::to_string(ranks_.size()) + " ranks, not " +
                     std::to_string(hello.first) + ": WORLD_SIZE differs between ranks");
    return;
  }
  const std::string name = "rank " + std::to_string(hello.rank);
  if (hello.rank < 0 || static_cast<size_t>(hello.rank) >= ranks_.size()) {
    Refuse(from, name + " is not in a world of " + std::to_string(ranks_.size()));
    return;
  }
  Rank& rank = ranks_[static_cast<size_t>(hello.rank)];
  if (rank.came) {
    Refuse(from, name + " has already joined: two processes have the same RANK");
    return;
  }
  from.rank = hello.rank;
  from.reader.set_limit(kMessageLimit);
  rank.came = true;
  rank.connection = &from;
  rank.beat = BootTime();
  ++came_;
  Send(from, {.type = MessageType::kWelcome});
  if (AllCame()) Broadcast({.type = MessageType::kReady});
}

void StoreServer::Set(Connection& from, Message message) {
  Message answer{.type = MessageType::kSetDone, .key = message.key};
  const size_t bytes = message.key.size() + message.value.size();
  if (values_.contains(message.key)) {
    answer.first = 1;
  } else if (stored_ + bytes > kMostStored) {
    answer.first = 2;
  } else {
    stored_ += bytes;
    const auto waiting = waiting_.extract(message.key);
    const auto [at, _] = values_.emplace(message.key, std::move(message.value));
    for (const int rank : waiting.empty() ? std::vector<int>() : waiting.mapped()) {
      Connection* to = ranks_[static_cast<size_t>(rank)].connection;
      if (to != nullptr) {
        Send(*to, {.type = MessageType::kValue, .key = at->first, .value = at->second});
      }
    }
  }
  Send(from, answer);
}

void StoreServer::Get(Connection& from, const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    waiting_[key].push_back(from.rank);
    return;
  }
  Send(from, {.type = MessageType::kValue, .key = key, .value = found->second});
}

void StoreServer::Late(const Connection& from, const Message& message) {
  const Time now = BootTime();
  std::vector<RankProgress> progress;
  progress.reserve(ranks_.size());
  for (const Rank& rank : ranks_) {
    progress.push_back({rank.issued, rank.finished, rank.left ? Duration{} : now - rank.beat});
  }
  if (failed_ || late_) return;
  late_ = Blame(progress, {from.rank, message.rank, message.value});
  if (!options_.witness) return Fail(*late_);
  late_until_ = now + options_.witness_time;
  Result<std::thread> witness = StartThread([this] {
    std::string said = options_.witness();
    {
      const MutexLock lock(&mutex_);
      witnessed_ = std::move(said);
    }
    wake_.Signal();
  });
  if (!witness.ok()) return Fail(*late_);
  witness_ = std::move(*witness);
}

void StoreServer::HearWitness(Time now) {
  if (!late_ || failed_) return;
  std::optional<std::string> said;
  {
    const MutexLock lock(&mutex_);
    said = witnessed_;
  }
  if (!said && now < late_until_) return;
  if (said && !said->empty()) late_->error.message += "; " + *said;
  Fail(*late_);
}

void StoreServer::Ended(Connection& connection) {
  connection.closing = true;
  connection.out.clear();
  if (connection.rank < 0) return;
  const int rank = connection.rank;
  connection.rank = -1;
  ranks_[static_cast<size_t>(rank)].connection = nullptr;
  if (ranks_[static_cast<size_t>(rank)].left) return;
  Fail({Error::Unavailable("rank " + std::to_string(rank) + " is lost: its connection ended"),
        rank});
}

void StoreServer::Tick() {
  const Time now = BootTime();
  HearWitness(now);
  for (Connection& connection : connections_) {
    if (connection.rank < 0 && now - connection.since > options_.greeting_time) {
      connection.closing = true;
    }
  }
  if (!AllCame() && now >= options_.deadline) {
    Fail({Error::Timeout(NameRanks(Missing()) + " of " + std::to_string(ranks_.size()) +
                         " did not come to " + options_.address + ":" +
                         std::to_string(options_.port)),
          Missing().front()});
  }
  const auto gone = [](const Rank& rank) { return rank.left || rank.connection == nullptr; };
  const bool all_left = AllCame() && std::all_of(ranks_.begin(), ranks_.end(), gone);
  bool leave = false;
  {
    const MutexLock lock(&mutex_);
    leave = leave_ && !said_bye_;
    all_left_ = all_left || failed_;
  }
  changed_.notify_all();
  if (!leave) return;
  if (!failed_) Broadcast({.type = MessageType::kBye});
  const MutexLock lock(&mutex_);
  said_bye_ = true;
  changed_.notify_all();
}

void StoreServer::ForgiveOwnPause() {
  const Time now = BootTime();
  const Duration pause = now - std::exchange(polled_, now) - kTick;
  if (pause <= Duration{}) return;
  for (Rank& rank : ranks_) rank.beat += pause;
}

void StoreServer::Sweep() {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const bool done = at->closing && at->out.empty();
    const bool overdue =
        at->closing && BootTime() - at->since > options_.greeting_time + kLastWords;
    const bool flooded = at->out.size() > kMostQueued;
    if (!done && !overdue && !flooded) {
      ++at;
      continue;
    }
    if (at->rank >= 0) Ended(*at);
    at = connections_.erase(at);
  }
}

void StoreServer::Send(Connection& to, const Message& message) {
  to.out += Encode(message);
  Write(to);
}

void StoreServer::Refuse(Connection& to, const std::string& why) {
  Send(to, {.type = MessageType::kRefused, .value = why.substr(0, kMaxValue)});
  to.closing = true;
}

void StoreServer::Broadcast(const Message& message) {
  for (size_t rank = ranks_.size(); rank-- > 0;) {
    if (ranks_[rank].connection != nullptr) Send(*ranks_[rank].connection, message);
  }
}

void StoreServer::Fail(const Failure& failure) {
  if (std::exchange(failed_, true)) return;
  Broadcast(FailedMessage(failure));
}

std::vector<int> StoreServer::Missing() const {
  std::vector<int> missing;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (!ranks_[rank].came) missing.push_back(static_cast<int>(rank));
  }
  return missing;
}

}  // namespace lockstep::collectives
