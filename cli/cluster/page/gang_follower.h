// GangFollower: how machine 0's agent knows the gang, followed by `lockstep-agent --status
// --follow` in its pod. The program is started again after it ends, with growing pauses. Bounded:
// one program, kMostOfLine bytes of a line. One thread; destroying it kills the program.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_GANG_FOLLOWER_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_GANG_FOLLOWER_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/process/process.h"
#include "base/result.h"
#include "base/text/line_buffer.h"
#include "base/time.h"
#include "core/gang/status/status_api.h"

namespace lockstep::cli {

// One line of that program. `age`: of the agent, when it said so.
struct GangLine {
  Duration age{};
  core::GangStatus gang;
};
Result<GangLine> ParseGangLine(std::string_view line);

class GangFollower {
 public:
  static constexpr size_t kMostOfLine = size_t{2} << 20;
  // Without a word the connection is dead: the agent says something every 2 s.
  static constexpr Duration kSilence = seconds(30);

  class Owner {
   public:
    virtual void OnGang(const core::GangStatus& gang, Time born) = 0;
    virtual void OnGangBeat() = 0;  // it is as it was
    virtual void OnGangLost(const std::string& why) = 0;

   protected:
    ~Owner() = default;
  };

  // All outlive this.
  GangFollower(EventLoop* loop, Spawner* spawner, Owner* owner);
  ~GangFollower();
  GangFollower(const GangFollower&) = delete;
  GangFollower& operator=(const GangFollower&) = delete;

  // From now on this agent, named by its pod's UID; nothing changes where it is followed already.
  void Follow(const std::string& uid, std::vector<std::string> argv);
  void Stop();

 private:
  void Start();
  void Read();
  void OnLine(std::string_view line);
  void End(std::string why);
  void Kill();

  EventLoop* loop_;
  Spawner* spawner_;
  Owner* owner_;
  std::string uid_;  // "": nobody is followed
  std::vector<std::string> argv_;
  std::optional<SpawnedProcess> process_;
  LineBuffer lines_{kMostOfLine};
  std::string words_;  // of its standard error
  std::optional<Time> born_;
  Duration pause_;
  WakeTimer again_;
  WakeTimer silence_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_GANG_FOLLOWER_H_
