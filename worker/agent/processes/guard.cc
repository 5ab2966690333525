#include "worker/agent/processes/guard.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/process/stop_signals.h"
#include "core/exit_codes.h"
#include "worker/agent/processes/descendants.h"

namespace lockstep::agent {
namespace {

// As SpawnRequest::extra_fds hands them down.
constexpr int kMemoryFd = 3;
constexpr int kWakeFd = 4;
// Between looks for what is left, once the lease is out.
constexpr Duration kKillAgain = milliseconds(10);
constexpr Duration kShortLife = seconds(1);
constexpr int kMaxShortLives = 3;

void KillGroups(const LiveTable& table) {
  for (const pid_t group : table.groups()) kill(-group, SIGKILL);
}

void Arm(int timer, Time at) {
  itimerspec spec{};
  if (at != kNever) {
    const Time when = std::max(at, Time(1));
    spec.it_value.tv_sec = duration_cast<seconds>(when).count();
    spec.it_value.tv_nsec = (when % seconds(1)).count();
  }
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, nullptr);
}

void Drain(int fd) {
  uint64_t count = 0;
  // A counter that is 0 already is no error: both are non-blocking.
  if (read(fd, &count, sizeof count) < 0) return;
}

// When to look again.
Time EnforceLease(LiveTable* table, pid_t agent) {
  // The clock first: a lease that is extended between the two was extended in time.
  const Time now = BootTime();
  const Time end = table->lease_end();
  if (end == kNever || now < end) return end;
  table->BeginKilling();
  KillGroups(*table);
  const size_t left = KillDescendants(agent, {getpid()});
  table->EndKilling(end);
  // With nothing left it sleeps until the agent has a new lease, which wakes it.
  return left == 0 ? kNever : BootTime() + kKillAgain;
}

}  // namespace

int GuardMain(int argc, char** argv) {
  // Told, not asked for: the agent may be dead by now, and its place taken.
  const pid_t agent = argc > 2 ? static_cast<pid_t>(std::strtol(argv[2], nullptr, 10)) : 0;
  for (const int signal : kStopSignals) ::signal(signal, SIG_IGN);
  for (const int signal : {SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  prctl(PR_SET_NAME, "lockstep-guard");
  const UniqueFd agent_fd(static_cast<int>(syscall(SYS_pidfd_open, agent, 0)));
  const Result<std::unique_ptr<LiveTable>> table = LiveTable::Open(UniqueFd(kMemoryFd));
  const UniqueFd wake(kWakeFd);
  const UniqueFd timer(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!table.ok() || !timer.valid()) return core::kExitConfiguration;

  // Its number may stand for another process when it died before the pidfd was made.
  bool agent_dead = !agent_fd.valid() || getppid() != agent;
  while (!agent_dead) {
    Arm(timer.get(), EnforceLease(table->get(), agent));
    std::array<pollfd, 3> fds = {pollfd{agent_fd.get(), POLLIN, 0}, pollfd{wake.get(), POLLIN, 0},
                                 pollfd{timer.get(), POLLIN, 0}};
    poll(fds.data(), fds.size(), -1);
    agent_dead = (fds[0].revents & POLLIN) != 0;
    if ((fds[1].revents & POLLIN) != 0) Drain(wake.get());
    if ((fds[2].revents & POLLIN) != 0) Drain(timer.get());
  }
  KillGroups(**table);
  return 0;
}

Guard::Guard(EventLoop* loop, Spawner* spawner, LiveTable* table, std::string executable,
             std::function<void(pid_t)> on_changed, Lost on_lost)
    : loop_(loop),
      spawner_(spawner),
      table_(table),
      executable_(std::move(executable)),
      on_changed_(std::move(on_changed)),
      on_lost_(std::move(on_lost)) {}

Result<std::unique_ptr<Guard>> Guard::Start(EventLoop* loop, Spawner* spawner, LiveTable* table,
                                            std::string executable,
                                            std::function<void(pid_t)> on_changed, Lost on_lost) {
  std::unique_ptr<Guard> guard(new Guard(loop, spawner, table, std::move(executable),
                                         std::move(on_changed), std::move(on_lost)));
  guard->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!guard->wake_.valid()) return ErrnoError("eventfd", errno);
  const Status spawned = guard->Spawn();
  if (!spawned.ok()) return spawned.error();
  return guard;
}

Guard::~Guard() {
  if (pid_ == 0) return;
  loop_->Unwatch(pidfd_.get());
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Status Guard::Spawn() {
  SpawnResult result =
      spawner_->Spawn({.path = executable_,
                       .argv = {"lockstep-guard", kGuardArgument, std::to_string(getpid())},
                       .env = {},
                       .capture_stdout = false,
                       .capture_stderr = false,
                       .extra_fds = {table_->memory_fd(), wake_.get()},
                       .dies_with_parent = false});  // for a moment
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Internal("guard: " + failure->message);
  }
  auto& process = std::get<SpawnedProcess>(result);
  pid_ = process.pid;
  pidfd_ = std::move(process.pidfd);
  born_ = BootTime();
  on_changed_(pid_);
  return loop_->Watch(pidfd_.get(), EPOLLIN, [this](uint32_t) { OnDeath(); });
}

void Guard::OnDeath() {
  loop_->Unwatch(pidfd_.get());
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  on_changed_(0);
  table_->ForgetDeadGuard();
  short_lives_ = BootTime() - born_ < kShortLife ? short_lives_ + 1 : 0;
  if (short_lives_ >= kMaxShortLives) {
    return on_lost_("the guard process died " + std::to_string(short_lives_) +
                    " times within a second of its start (wait status " + std::to_string(status) +
                    ")");
  }
  const Status spawned = Spawn();
  if (!spawned.ok()) on_lost_(spawned.error().message);
}

void Guard::SetLeaseEnd(Time end) {
  if (!table_->SetLeaseEnd(end)) return;
  const uint64_t one = 1;
  // Full means that a wake-up is under way already.
  if (write(wake_.get(), &one, sizeof one) < 0) return;
}

}  // namespace lockstep::agent
