// AgentProcesses: the agents of a run as processes: started, signalled, listened to and reaped.
//
// An end is told only when nothing that the agent started is alive: in a PID namespace the kernel
// sees to it before the end can be seen; without one, what is left comes to this process and is
// swept. On another computer the agent's far end does the same, and its client here (srun, ssh)
// brings the word; where the client ends without it, the end is told as not confirmed.
#ifndef LOCKSTEP_CLI_RUN_MACHINES_AGENT_PROCESSES_H_
#define LOCKSTEP_CLI_RUN_MACHINES_AGENT_PROCESSES_H_

#include <csignal>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/result.h"
#include "base/text/line_buffer.h"
#include "cli/run/machines/places.h"
#include "cli/run/output/screen.h"
#include "core/plan/agent_config.h"
#include "core/plan/far_end.h"
#include "worker/place/spawn.h"

namespace lockstep::cli {

struct AgentEnd {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  int code = -1;  // -1 when a signal ended it
  int signal = 0;
  Time at{};                // when its end was seen
  std::string last_words;   // of its own log
  std::string termination;  // the message that it left; "" for none
  bool confirmed = true;    // false: its computer was lost, and it may be alive
};

struct AgentProcessesOptions {
  std::string agent;  // the program
  bool namespaces = true;
  bool show_agent_logs = false;
  bool own_shared_memory = false;  // as SpawnSpec has it
  std::string hosts_file;          // likewise; "": machines keep this computer's host name
  bool needs_host_names = false;   // the job may go wrong without: said where they can't be had
  // The agents mark stderr (core::AgentConfig): the screen gets lines without the mark.
  bool marks_stderr = false;
  // Each line of the ranks' output as its agent wrote it, without its end; may be empty.
  std::function<void(uint32_t machine, std::string_view line)> on_line = {};
};

class AgentProcesses {
 public:
  AgentProcesses(EventLoop* loop, Screen* screen, Spawner* spawner, AgentProcessesOptions options);

  // Starts an agent for config.machine, which has none, at its place.
  Status Start(const core::AgentConfig& config, const Place& place);
  // Starts one that waits; `machine` is a number that no machine has.
  Status StartSpare(uint32_t machine);
  void Terminate(uint32_t machine) { Signal(machine, SIGTERM); }
  // One that is out of reach is given up after kKillPatience.
  void Kill(uint32_t machine) { Signal(machine, SIGKILL); }

  // Those that ended since the last call.
  std::vector<AgentEnd> Collect();
  // Whether Collect waits for orphans: it must be called again though no descriptor says so.
  bool sweeping() const { return !ending_.empty(); }
  // Reads no more while the screen can't take it; call it once a round.
  void Throttle();
  // What ended agents have still left in their pipes.
  void FlushOutput();

 private:
  static constexpr size_t kMaxLine = size_t{512} << 10;  // more than an agent's raw lines
  static constexpr Duration kKillPatience = seconds(10);

  struct Agent {
    uint32_t machine = 0;
    uint32_t attempt = 0;
    place::SpawnedAgent process;  // or its client
    bool remote = false;
    std::optional<core::AgentEnding> ending;  // as its far end tells it
    LineBuffer output{kMaxLine};
    LineBuffer log{kMaxLine};
    std::deque<std::string> last_words;
  };

  Result<place::SpawnedAgent> Spawn(std::vector<std::string> arguments, std::string host_name);
  void TellOfHostNames();
  Status StartRemote(const core::AgentConfig& config, const Place& place);
  Status Adopt(const std::shared_ptr<Agent>& agent);
  void Signal(uint32_t machine, int signal);
  void Order(const std::shared_ptr<Agent>& agent, int signal);
  void WatchOutput(const std::shared_ptr<Agent>& agent);
  void WatchLog(const std::shared_ptr<Agent>& agent);
  void OnEnd(uint32_t machine);
  bool ReadOutput(Agent& agent);
  bool ReadLog(Agent& agent);

  EventLoop* loop_;
  Screen* screen_;
  Spawner* spawner_;
  AgentProcessesOptions options_;
  place::Isolation isolation_;
  bool isolation_known_ = false;
  bool host_names_told_ = false;
  bool paused_ = false;
  std::map<uint32_t, std::shared_ptr<Agent>> agents_;  // that run
  std::vector<AgentEnd> ending_;                       // reaped, perhaps with orphans
  std::vector<std::shared_ptr<Agent>> silent_;         // ended; their pipes may hold text
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_MACHINES_AGENT_PROCESSES_H_
