// EventLoop: waits for file descriptors in one thread, and nothing more.
#ifndef LOCKSTEP_CLI_RUN_EVENT_LOOP_H_
#define LOCKSTEP_CLI_RUN_EVENT_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>

#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep::cli {

class EventLoop {
 public:
  using Callback = std::function<void(uint32_t events)>;

  static Result<EventLoop> Create();

  // Level-triggered, events of epoll; again with other events changes them and keeps the callback
  // when none is given. False for what can't be waited for (a regular file).
  bool Watch(int fd, uint32_t events, Callback callback = nullptr);
  // Before the descriptor is closed. May be called from a callback.
  void Unwatch(int fd);

  // One round: waits until something happens or `until`, and calls back.
  void Run(Time now, Time until);

 private:
  struct Watched {
    uint32_t events = 0;
    Callback callback;
  };
  UniqueFd epoll_;
  std::map<int, Watched> watched_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_EVENT_LOOP_H_
