// Starting one agent: a child with its own session, its own PID namespace where that is allowed,
// and no way to outlive this process.
//
//   Result<SpawnedAgent> agent = SpawnAgent(spawner, spec);
//   TellConfig(*agent, json);
//   std::string message = ReadLastMessage(*agent);  // after its end
//
// Call it from the main thread: SIGKILL comes to the agent when the *thread* that made it ends.
#ifndef LOCKSTEP_WORKER_PLACE_SPAWN_H_
#define LOCKSTEP_WORKER_PLACE_SPAWN_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::place {

// How an agent's processes are kept together. In a PID namespace the kernel ends all of them with
// the agent, whatever they did to get away.
enum class Isolation : uint8_t {
  kNamespace,      // own PID and mount namespace, own /proc
  kUserNamespace,  // the same, inside a user namespace that maps only this user
  kNone,           // orphans come to this process, which is their subreaper, and are swept
};
const char* ToString(Isolation isolation);

struct SpawnSpec {
  std::string program;                 // the agent's path
  std::vector<std::string> arguments;  // without the program's name; {fd} is the config's number
  Isolation isolation = Isolation::kNone;
  // Where the isolation has a mount namespace: an empty /dev/shm of its own, mounted as `lockstep`,
  // in which the folders that are there now are seen as ever. One that can't be had is not missed.
  bool own_shared_memory = false;
  // Likewise: the machine's own host name, and the file that is /etc/hosts there and knows it.
  // "": the computer's.
  std::string host_name = {};
  std::string hosts_file = {};
  bool capture_output = true;  // else its stdout and stderr are this process's
};

struct SpawnedAgent {
  pid_t pid = 0;
  UniqueFd pidfd;
  UniqueFd config;          // a socket for TellConfig and ReadLastMessage
  UniqueFd output;          // its stdout; both non-blocking
  UniqueFd log;             // its stderr
  bool host_named = false;  // it has SpawnSpec::host_name
};

// Denied: this isolation is not allowed here, try the next. NotFound: no such program. Unavailable:
// no process or descriptor to be had.
Result<SpawnedAgent> SpawnAgent(Spawner* spawner, const SpawnSpec& spec);

// All that it is told. An agent that has ended already is told by its end.
void TellConfig(const SpawnedAgent& agent, const std::string& json);
// What an agent that has ended left behind (core::Termination); "": nothing. It lies in the
// kernel's memory, where the user's program fills no space.
std::string ReadLastMessage(const SpawnedAgent& agent);

// The most isolation, from `isolation` on, that is allowed here, which it then says. `refused`
// hears what was not.
Result<SpawnedAgent> SpawnIsolated(Spawner* spawner, SpawnSpec* spec,
                                   const std::function<void(const Error&)>& refused);

// What reaches an agent on another computer: a client of ssh or srun. `config` is the pipe to its
// stdin.
// It outlives this process by as long as it takes to tell the far end.
Result<SpawnedAgent> SpawnClient(Spawner* spawner, const std::vector<std::string>& argv,
                                 std::vector<std::string> env);

// The number of the descriptor that the agent's configuration is read from.
inline constexpr int kConfigFd = 3;

// Everything that this process is the parent of, less `agents`, is killed and reaped: what an agent
// without a PID namespace left behind. True when nothing of it is left.
bool SweepOrphans(const std::vector<pid_t>& agents);

// Orphans of descendants come to this process from now on.
Status BecomeSubreaper();

}  // namespace lockstep::place

#endif  // LOCKSTEP_WORKER_PLACE_SPAWN_H_
