// Departure: when an agent that is to leave may go: once nothing holds it any more, or after a
// limit. Its owner asks it again whenever something that held it has ended.
#ifndef LOCKSTEP_WORKER_AGENT_DEPARTURE_H_
#define LOCKSTEP_WORKER_AGENT_DEPARTURE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/time.h"
#include "core/gang/member/member.h"

namespace lockstep::agent {

class Departure {
 public:
  // How long an agent waits for its ranks to be gone.
  static constexpr Duration kPatience = seconds(35);

  enum class Hold : uint8_t {
    kNone,
    kDraining,  // nothing reports its end: it is asked for every 5 ms
    kEvents,    // the owner calls Check() when it ends
  };

  // `hold` is asked only after Begin. `go` is called once, from Begin, Check or the loop.
  Departure(EventLoop* loop, std::function<Hold()> hold, std::function<void()> go,
            Duration patience = kPatience);

  // The first exit counts; false: this one is not the first.
  bool Begin(const core::ExitAgent& exit);
  void Check();

  // Nullopt before Begin.
  const std::optional<core::ExitAgent>& exit() const { return exit_; }

 private:
  std::function<Hold()> hold_;
  std::function<void()> go_;
  Duration patience_;
  std::optional<core::ExitAgent> exit_;
  Time limit_ = kNever;
  bool gone_ = false;
  WakeTimer timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_DEPARTURE_H_
