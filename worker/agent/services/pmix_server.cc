#include "worker/agent/services/pmix_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <utility>
#include <variant>

#include "core/exit_codes.h"
#include "worker/agent/processes/death.h"

namespace lockstep::agent {

namespace {

// A socket's send buffer holds several packets.
constexpr size_t kMostPackets = size_t{4} << 10;
constexpr size_t kMostWords = 1024;
// Not beside ranks that begin.
constexpr Duration kPrepareAfter = milliseconds(50);

void Kill(const SpawnedProcess& process) {
  syscall(SYS_pidfd_send_signal, process.pidfd.get(), SIGKILL, nullptr, 0);
}

}  // namespace

PmixServer::PmixServer(EventLoop* loop, Spawner* spawner, ProcessSet* processes, Options options,
                       MpiOwner* owner, LogFn log)
    : loop_(loop),
      spawner_(spawner),
      processes_(processes),
      options_(std::move(options)),
      owner_(owner),
      log_(std::move(log)),
      words_(log_, 20, seconds(10)),
      ends_(loop, options_.machine * options_.processes,
            uint64_t{options_.machines} * options_.processes, owner, log_),
      patience_(loop,
                [this] {
                  core::Failure death;
                  death.cause = core::Cause::kProcessExit;
                  death.exit_code = core::kExitTrouble;
                  death.stderr_tail =
                      "it did not answer for " +
                      std::to_string(duration_cast<seconds>(options_.patience).count()) + " s";
                  Lose(std::move(death));
                }),
      prepare_(loop, [this] { Prepare(); }) {
  std::error_code ignored;
  std::filesystem::remove_all(options_.folder, ignored);
  Prepare();
}

PmixServer::~PmixServer() {
  Drop(&next_);
  Drop(&helper_);
  RemoveFolders();
}

Status PmixServer::Spawn(std::unique_ptr<Helper>* helper) {
  auto made = std::make_unique<Helper>();
  made->folder = options_.folder + "/" + std::to_string(++folders_);
  std::error_code error;
  std::filesystem::create_directories(options_.folder, error);
  if (mkdir(made->folder.c_str(), 0700) != 0) return ErrnoError(made->folder, errno);
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ErrnoError("socketpair", errno);
  }
  made->socket.reset(ends[0]);
  const UniqueFd its(ends[1]);
  SpawnResult result =
      spawner_->Spawn({.path = options_.program,
                       .argv = {pmix::kHelperProgram, std::to_string(options_.machine),
                                std::to_string(options_.machines),
                                std::to_string(options_.processes), made->folder},
                       .env = {},
                       .capture_stdout = false,
                       .extra_fds = {its.get()},
                       .own_session = true});
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    dropped_folders_.push_back(made->folder);
    return failure->not_found() ? Error::NotFound(failure->message)
                                : Error::Unavailable(failure->message);
  }
  made->process = std::move(std::get<SpawnedProcess>(result));
  processes_->LeaveOut(made->process.pid);
  Helper* const raw = made.get();
  *helper = std::move(made);
  return loop_->Watch(raw->process.stderr_fd.get(), EPOLLIN,
                      [this, raw](uint32_t) { ReadWords(raw); });
}

// Megabytes of memory are freed with each: not while the next generation is waited for.
void PmixServer::RemoveFolders() {
  std::error_code ignored;
  for (const std::string& folder : std::exchange(dropped_folders_, {})) {
    std::filesystem::remove_all(folder, ignored);
  }
}

void PmixServer::Prepare() {
  RemoveFolders();
  if (next_) return;
  const Status spawned = Spawn(&next_);
  if (!spawned.ok()) return Drop(&next_);  // Begin tries again, and says why not
  const Status watched = loop_->Watch(next_->process.pidfd.get(), EPOLLIN, [this](uint32_t) {
    ReadWords(next_.get());
    log_("a PMIx server that waited has ended: " + next_->last_words);
    Drop(&next_);
  });
  if (!watched.ok()) return Drop(&next_);
  // A restart in place is the likeliest to come; if another generation does, another is started.
  if (!generation_.exists()) return;
  const Status told = Tell(next_.get(), {generation_.attempt, generation_.n + 1});
  if (!told.ok()) Drop(&next_);
}

// Its process is dead, or is killed.
void PmixServer::Drop(std::unique_ptr<Helper>* helper) {
  if (!*helper) return;
  Helper& dropped = **helper;
  if (dropped.process.pid > 0) {
    loop_->Unwatch(dropped.process.pidfd.get());
    loop_->Unwatch(dropped.process.stderr_fd.get());
    Kill(dropped.process);
    if (!dropped.taken_in) processes_->TakeIn(dropped.process.pid);
  }
  if (dropped.socket.valid()) loop_->Unwatch(dropped.socket.get());
  dropped_folders_.push_back(dropped.folder);
  helper->reset();
}

Status PmixServer::Begin(core::Generation generation) {
  End();
  generation_ = generation;
  prepare_.Cancel();
  if (next_ && next_->told.exists() && next_->told != generation) Drop(&next_);
  if (!next_) {
    const Status spawned = Spawn(&next_);
    if (!spawned.ok()) {
      Drop(&next_);
      return spawned;
    }
  } else {
    loop_->Unwatch(next_->process.pidfd.get());
  }
  helper_ = std::move(next_);
  pmix_.emplace(options_.machines, options_.processes);
  Status watched =
      loop_->Watch(helper_->process.pidfd.get(), EPOLLIN, [this](uint32_t) { OnEnded(); });
  if (watched.ok()) {
    watched =
        loop_->Watch(helper_->socket.get(), EPOLLIN, [this](uint32_t events) { OnSocket(events); });
  }
  if (!watched.ok()) return watched;
  patience_.WakeAt(BootTime() + options_.patience);
  return helper_->told.exists() ? Status() : Tell(helper_.get(), generation);
}

// What it answers waits in its socket until Begin.
Status PmixServer::Tell(Helper* helper, core::Generation generation) {
  const Result<std::string> secret = owner_->Secret(generation);
  if (!secret.ok()) return secret.error();
  helper->told = generation;
  const std::string packet = pmix::Encode(
      {.kind = pmix::Kind::kBegin,
       .bytes = "lockstep-" + options_.job_uid + "-" + generation.ToString() + "-" + *secret});
  // The first packet: there is room.
  const ssize_t sent =
      send(helper->socket.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 && errno != EPIPE ? ErrnoError("send", errno) : Status();
}

void PmixServer::Stop() {
  if (!helper_ || std::exchange(stopping_, true)) return;
  patience_.Cancel();
  loop_->Unwatch(helper_->process.pidfd.get());
  helper_->taken_in = true;
  processes_->TakeIn(helper_->process.pid);
}

void PmixServer::End() {
  Drop(&helper_);
  pmix_.reset();
  ends_.Clear();
  patience_.Cancel();
  stopping_ = false;
}

void PmixServer::Close() {
  prepare_.Cancel();
  Drop(&next_);
}

void PmixServer::OnSocket(uint32_t events) {
  if ((events & EPOLLOUT) != 0) Flush();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) ReadSocket();
}

void PmixServer::ReadSocket() {
  std::array<char, pmix::kMaxPacket + 1> packet;
  const core::Generation generation = generation_;
  while (helper_ && generation == generation_) {
    const ssize_t got = recv(helper_->socket.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return loop_->Unwatch(helper_->socket.get());  // OnEnded follows
    Result<pmix::Message> message = pmix::Decode({packet.data(), static_cast<size_t>(got)});
    Result<Pmix::Effects> effects =
        message.ok() ? pmix_->OnMessage(*std::move(message)) : message.error();
    if (!effects.ok()) {
      helper_->last_words = effects.error().message;
      // One that says itself why it ends does so.
      if (effects.error().kind != ErrorKind::kUnavailable) Kill(helper_->process);
      return;
    }
    CarryOut(*std::move(effects));
  }
}

void PmixServer::CarryOut(Pmix::Effects effects) {
  Send(effects.answers);
  if (!effects.refused.empty()) log_("PMIx: " + effects.refused);
  if (effects.abort) ends_.OnAbort(*effects.abort);
  if (effects.fence) owner_->OnFence(generation_, *std::move(effects.fence));
  if (effects.ready.empty() || stopping_) return;
  patience_.Cancel();
  prepare_.WakeAt(BootTime() + kPrepareAfter);
  variables_ = std::move(effects.ready);
  owner_->OnReady(generation_);
}

void PmixServer::ReadWords(Helper* helper) {
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t got = read(helper->process.stderr_fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return loop_->Unwatch(helper->process.stderr_fd.get());
    helper->said.Append({buffer.data(), static_cast<size_t>(got)});
    while (const std::optional<std::string_view> line = helper->said.Next()) {
      if (line->empty()) continue;
      words_.Write(loop_->now(), "PMIx server: " + std::string(*line));
      helper->last_words.append(*line).append("\n");
      if (helper->last_words.size() > kMostWords) {
        helper->last_words.erase(0, helper->last_words.size() - kMostWords);
      }
    }
    if (helper->said.overflow()) helper->said.Clear();
  }
}

void PmixServer::Deliver(const core::DeliverFence& fence) {
  if (pmix_ && fence.generation == generation_) Send(pmix_->OnFence(fence.entries, fence.last));
}

void PmixServer::Send(const std::vector<pmix::Message>& messages) {
  if (!helper_ || messages.empty()) return;
  for (const pmix::Message& message : messages) helper_->unsent.push_back(pmix::Encode(message));
  if (helper_->unsent.size() > kMostPackets) {
    helper_->last_words = "it does not read its messages";
    return Kill(helper_->process);
  }
  Flush();
}

void PmixServer::Flush() {
  std::deque<std::string>& unsent = helper_->unsent;
  while (!unsent.empty()) {
    const std::string& packet = unsent.front();
    const ssize_t sent =
        send(helper_->socket.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) break;
    if (sent < 0) unsent.clear();  // OnEnded follows
    if (!unsent.empty()) unsent.pop_front();
  }
  loop_->Modify(helper_->socket.get(), unsent.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

// Of the helper, by itself.
void PmixServer::OnEnded() {
  if (stopping_ || !helper_) return;
  siginfo_t info{};
  const auto pidfd = static_cast<id_t>(helper_->process.pidfd.get());
  if (waitid(P_PIDFD, pidfd, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
  ReadSocket();  // why it ended
  ReadWords(helper_.get());
  core::Failure death = DeathOf(info);
  death.stderr_tail = helper_->last_words;
  Lose(std::move(death));
}

void PmixServer::Lose(core::Failure death) {
  death.at = BootTime();
  death.by_itself = true;
  Kill(helper_->process);
  Stop();
  owner_->OnLost(generation_, std::move(death));
}

bool PmixServer::Judge(uint32_t local_rank, core::Failure* death) {
  if (!pmix_) return death->exit_code != 0;
  ReadSocket();  // what it said last, before its end
  OnEnded();     // of which its own may be an effect
  if (!pmix_) return death->exit_code != 0;
  return ends_.Judge(local_rank, pmix_->StageOf(local_rank), death);
}

}  // namespace lockstep::agent
