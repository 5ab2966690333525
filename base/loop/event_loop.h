// The event loop of agents and operators: file descriptors, timers and signals in one thread,
// asleep in the kernel unless something happened. There is no tick.
//
//   std::unique_ptr<EventLoop> loop = std::move(*EventLoop::Create());
//   loop->Watch(fd, EPOLLIN, [&](uint32_t events) { ... });
//   TimerId timer = loop->StartTimer(BootTime() + seconds(5), [&] { ... });
//   loop->OnSignal(SIGTERM, [&] { loop->Stop(); });
//   loop->Run();
//
// All of it belongs to the thread that runs it; only PostFromAnyThread may be called from others. A
// callback may do anything, also remove the watch or timer that called it, and destroy its
// owner.
//
// Order within a round: descriptors that are ready, then timers that are due, then what was posted
// (until none is left). So all that is written during a round can be sent once, at its end, by
// Post.
#ifndef LOCKSTEP_BASE_LOOP_EVENT_LOOP_H_
#define LOCKSTEP_BASE_LOOP_EVENT_LOOP_H_

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_annotations.h"
#include "base/time.h"
#include "base/unique_fd.h"

namespace lockstep {

// Names a timer; 0 names none.
using TimerId = uint64_t;

class EventLoop {
 public:
  using FdCallback = std::function<void(uint32_t events)>;
  using Callback = std::function<void()>;

  static Result<std::unique_ptr<EventLoop>> Create();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Level-triggered. The descriptor stays the caller's and must be unwatched before it is closed.
  // Denied for what cannot be waited for: a regular file, /dev/null.
  Status Watch(int fd, uint32_t events, FdCallback callback);
  void Modify(int fd, uint32_t events);
  void Unwatch(int fd);

  // Calls back once, at `when` or as soon after it as the loop gets to it.
  TimerId StartTimer(Time when, Callback callback);
  // Nothing happens when it has fired already, or for 0.
  void CancelTimer(TimerId id);

  // Calls back at the end of this round; outside of one, at the end of the next.
  void Post(Callback callback);
  // The same from any thread, while the loop exists; wakes the loop. In the order of the calls.
  void PostFromAnyThread(Callback callback);

  // Blocks the signal in this thread and calls back for each batch of it (signals merge). One that
  // this process ignores stays ignored.
  void OnSignal(int signal, Callback callback);

  // Runs until Stop().
  void Run();
  void Stop() { stopped_ = true; }
  // One round: waits for something to happen, unless something was posted.
  void RunOnce();

  // Time at the start of this round: what happened in it happened no later than this, to within
  // the round's length.
  Time now() const { return now_; }

 private:
  struct Watched {
    uint32_t events = 0;
    uint32_t serial = 0;  // tells a descriptor from an earlier one of the same number
    FdCallback callback;
  };

  EventLoop() = default;
  Status Open();
  Status Control(int operation, int fd, const Watched& watched);
  void ReadSignals();
  void ArmTimer();
  void RunDueTimers();
  void RunPosted();
  void TakeFromOthers();

  UniqueFd epoll_;
  UniqueFd timer_fd_;
  UniqueFd signal_fd_;
  UniqueFd wake_fd_;
  std::unordered_map<int, std::shared_ptr<Watched>> watched_;
  std::map<std::pair<Time, TimerId>, Callback> timers_;  // by time: the first is the nearest
  std::unordered_map<TimerId, Time> timer_times_;
  std::vector<Callback> posted_;
  Mutex others_mutex_;
  std::vector<Callback> from_others_ GUARDED_BY(others_mutex_);
  std::unordered_map<int, Callback> signals_;
  sigset_t signal_mask_{};
  Time armed_ = kNever;
  Time now_{};
  TimerId last_timer_ = 0;
  uint32_t last_serial_ = 0;
  bool stopped_ = false;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_LOOP_EVENT_LOOP_H_
