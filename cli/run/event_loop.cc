#include "cli/run/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

namespace lockstep::cli {

Result<EventLoop> EventLoop::Create() {
  EventLoop loop;
  loop.epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!loop.epoll_.valid()) return ErrnoError("epoll_create1", errno);
  return loop;
}

bool EventLoop::Watch(int fd, uint32_t events, Callback callback) {
  auto found = watched_.find(fd);
  if (found != watched_.end() && found->second.events == events && !callback) return true;
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  // A descriptor that was closed and came again is unknown to the kernel.
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0 &&
      epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return false;
  }
  Watched& watched = watched_[fd];
  watched.events = events;
  if (callback) watched.callback = std::move(callback);
  return true;
}

void EventLoop::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::Run(Time now, Time until) {
  int timeout = -1;
  if (until != kNever) {
    // Rounded up, or the last millisecond would be spent spinning.
    int64_t left = (std::max(until - now, Duration::zero()) + Duration(999'999)) / milliseconds(1);
    timeout = static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
  }
  std::array<epoll_event, 128> events;
  int n = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
  for (int i = 0; i < n; ++i) {
    const epoll_event& event = events[static_cast<size_t>(i)];
    auto found = watched_.find(event.data.fd);
    if (found == watched_.end()) continue;
    Callback callback = found->second.callback;  // it may unwatch itself
    if (callback) callback(event.events);
  }
}

}  // namespace lockstep::cli
