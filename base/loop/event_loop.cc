#include "base/loop/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include <array>
#include <cerrno>
#include <string>

namespace lockstep {
namespace {

constexpr int kEventsPerRound = 256;

uint64_t Tag(int fd, uint32_t serial) {
  return (uint64_t{serial} << 32) | static_cast<uint32_t>(fd);
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::Create() {
  std::unique_ptr<EventLoop> loop(new EventLoop);
  const Status opened = loop->Open();
  if (!opened.ok()) return opened.error();
  return loop;
}

EventLoop::~EventLoop() = default;

Status EventLoop::Open() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return ErrnoError("epoll_create1", errno);
  timer_fd_.reset(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_fd_.valid()) return ErrnoError("timerfd_create", errno);
  sigemptyset(&signal_mask_);
  now_ = BootTime();
  wake_fd_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_fd_.valid()) return ErrnoError("eventfd", errno);
  Status woken = Watch(wake_fd_.get(), EPOLLIN, [this](uint32_t) { TakeFromOthers(); });
  if (!woken.ok()) return woken;
  return Watch(timer_fd_.get(), EPOLLIN, [this](uint32_t) {
    uint64_t expirations = 0;
    if (read(timer_fd_.get(), &expirations, sizeof expirations) > 0) armed_ = kNever;
  });
}

Status EventLoop::Control(int operation, int fd, const Watched& watched) {
  epoll_event event{};
  event.events = watched.events;
  event.data.u64 = Tag(fd, watched.serial);
  if (epoll_ctl(epoll_.get(), operation, fd, &event) != 0) {
    if (errno == EPERM) return Error::Denied("epoll: this kind of file cannot be waited for");
    return ErrnoError("epoll_ctl of descriptor " + std::to_string(fd), errno);
  }
  return {};
}

Status EventLoop::Watch(int fd, uint32_t events, FdCallback callback) {
  auto watched = std::make_shared<Watched>();
  watched->events = events;
  watched->serial = ++last_serial_;
  watched->callback = std::move(callback);
  Status added = Control(EPOLL_CTL_ADD, fd, *watched);
  if (!added.ok()) return added;
  watched_[fd] = std::move(watched);
  return {};
}

void EventLoop::Modify(int fd, uint32_t events) {
  const auto found = watched_.find(fd);
  if (found == watched_.end() || found->second->events == events) return;
  found->second->events = events;
  const Status modified = Control(EPOLL_CTL_MOD, fd, *found->second);
  assert(modified.ok());
}

void EventLoop::Unwatch(int fd) {
  if (watched_.erase(fd) == 0) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

TimerId EventLoop::StartTimer(Time when, Callback callback) {
  const TimerId id = ++last_timer_;
  timers_.emplace(std::pair(when, id), std::move(callback));
  timer_times_.emplace(id, when);
  return id;
}

void EventLoop::CancelTimer(TimerId id) {
  const auto found = timer_times_.find(id);
  if (found == timer_times_.end()) return;
  timers_.erase({found->second, id});
  timer_times_.erase(found);
}

void EventLoop::Post(Callback callback) { posted_.push_back(std::move(callback)); }

void EventLoop::PostFromAnyThread(Callback callback) {
  {
    const MutexLock lock(&others_mutex_);
    from_others_.push_back(std::move(callback));
    if (from_others_.size() > 1) return;  // the loop has been woken already
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_.get(), &one, sizeof one);
}

void EventLoop::TakeFromOthers() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(wake_fd_.get(), &count, sizeof count);
  std::vector<Callback> batch;
  {
    const MutexLock lock(&others_mutex_);
    batch.swap(from_others_);
  }
  for (Callback& callback : batch) Post(std::move(callback));
}

void EventLoop::OnSignal(int signal, Callback callback) {
  // An ignored SIGCHLD, inherited, would reap children by itself.
  if (signal == SIGCHLD) ::signal(SIGCHLD, SIG_DFL);
  // Whoever starts a program with a signal ignored (nohup; a shell, of what runs beside it) means
  // it to go on. Blocked, as for a signalfd, it would come all the same.
  struct sigaction as_it_is{};
  if (sigaction(signal, nullptr, &as_it_is) == 0 && as_it_is.sa_handler == SIG_IGN) return;
  signals_[signal] = std::move(callback);
  sigaddset(&signal_mask_, signal);
  pthread_sigmask(SIG_BLOCK, &signal_mask_, nullptr);
  const bool first = !signal_fd_.valid();
  const int fd = signalfd(signal_fd_.get(), &signal_mask_, SFD_NONBLOCK | SFD_CLOEXEC);
  assert(fd >= 0);
  if (!first) return;
  signal_fd_.reset(fd);
  const Status watched = Watch(fd, EPOLLIN, [this](uint32_t) { ReadSignals(); });
  assert(watched.ok());
}

void EventLoop::ReadSignals() {
  sigset_t seen;
  sigemptyset(&seen);
  signalfd_siginfo info{};
  while (read(signal_fd_.get(), &info, sizeof info) == sizeof info) {
    sigaddset(&seen, static_cast<int>(info.ssi_signo));
  }
  std::vector<Callback> due;
  for (const auto& [signal, callback] : signals_) {
    if (sigismember(&seen, signal) == 1) due.push_back(callback);
  }
  for (const Callback& callback : due) callback();
}

void EventLoop::ArmTimer() {
  // To set it costs more than most of what is done in a round, and most timers are cancelled: where
  // a later one remains, the loop wakes once for nothing instead.
  if (timers_.empty() || timers_.begin()->first.first >= armed_) return;
  armed_ = timers_.begin()->first.first;
  itimerspec spec{};
  spec.it_value.tv_sec = duration_cast<seconds>(armed_).count();
  spec.it_value.tv_nsec = (armed_ % seconds(1)).count();
  timerfd_settime(timer_fd_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

void EventLoop::RunDueTimers() {
  if (timers_.empty() || timers_.begin()->first.first > now_) return;
  // A timer that a callback starts for the past waits for the next round, so that this one ends.
  const TimerId newest = last_timer_;
  for (auto first = timers_.begin(); first != timers_.end() && first->first.first <= now_;) {
    if (first->first.second > newest) {
      ++first;
      continue;
    }
    const Callback callback = std::move(first->second);
    timer_times_.erase(first->first.second);
    timers_.erase(first);
    callback();
    first = timers_.begin();
  }
}

void EventLoop::RunPosted() {
  while (!posted_.empty()) {
    std::vector<Callback> batch;
    batch.swap(posted_);
    for (const Callback& callback : batch) callback();
  }
}

void EventLoop::RunOnce() {
  const bool due =
      !posted_.empty() || (!timers_.empty() && timers_.begin()->first.first <= BootTime());
  if (!due) ArmTimer();
  std::array<epoll_event, kEventsPerRound> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), kEventsPerRound, due ? 0 : -1);
  now_ = BootTime();
  for (int i = 0; i < ready; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    const int fd = static_cast<int>(event.data.u64 & 0xffffffff);
    const auto found = watched_.find(fd);
    if (found == watched_.end() || Tag(fd, found->second->serial) != event.data.u64) continue;
    const std::shared_ptr<Watched> watched = found->second;
    watched->callback(event.events);
  }
  RunDueTimers();
  RunPosted();
}

void EventLoop::Run() {
  stopped_ = false;
  while (!stopped_) RunOnce();
}

}  // namespace lockstep
