// LocalMachines: agent processes of this computer in the words of operator/policy: what is observed
// of them, and what it means to stop one. A machine's address is one place: its next attempt is
// started when the last one has ended. Pure; ends are told when nothing that the agent started is
// alive.
#ifndef LOCKSTEP_CLI_RUN_MACHINES_LOCAL_MACHINES_H_
#define LOCKSTEP_CLI_RUN_MACHINES_LOCAL_MACHINES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/model/spec.h"
#include "core/terms/members.h"
#include "operator/policy/facts/decision.h"
#include "operator/policy/facts/observation.h"
#include "operator/policy/facts/snapshot.h"

namespace lockstep::cli {

// The agents of spares stand behind all machines: spare n is kFirstSpare + n.
inline constexpr uint32_t kFirstSpare = 1 << 20;
static_assert(kFirstSpare >= core::kMostMachines);

struct MachinePlace {
  std::string address;  // of its agent
  std::string node;     // "" on this computer
};

struct AgentProcess {
  uint32_t machine = 0;
  uint32_t attempt = 0;
  Time started{};
  std::optional<Time> kill_at;  // SIGTERM was sent, and SIGKILL follows then
  bool killed = false;          // SIGKILL was sent
  std::optional<control::MachineEnd> end;
  bool placed = true;  // false: it is unschedulable, and has yet to start

  bool is_spare() const { return machine >= kFirstSpare; }
};

// What is to be sent to the agent of a machine that runs.
enum class StopSignal : uint8_t { kNone, kTerminate, kKill };

class LocalMachines {
 public:
  // Wall times are `start.wall` plus what has passed since `start.boot`, whoever sets the clock.
  explicit LocalMachines(control::Now start) : start_(start) {}

  control::Now At(Time boot) const { return {start_.wall + (boot - start_.boot), boot}; }

  // Whether no attempt of the machine runs.
  bool IsFree(uint32_t machine) const;
  void Started(uint32_t machine, uint32_t attempt, Time at);
  // It is to wait for its place. Then those of the machines that do and may have theirs now.
  void Waits(uint32_t machine, uint32_t attempt, Time at);
  std::vector<uint32_t> Place(const core::Members& unschedulable, Time at);
  // The attempt of this machine that ran.
  void Ended(uint32_t machine, control::MachineEnd end);

  // An attempt with another in its place is killed: who has been lost may not answer SIGTERM, and
  // holds its successor's address. Others have `patience` to leave.
  std::pair<uint32_t, StopSignal> Stop(const control::StopMachine& action, Time now,
                                       Duration patience);
  // Machines whose patience is over; each is named once.
  std::vector<uint32_t> Overdue(Time now);
  Time NextKill() const;  // kNever: nobody is waited for
  // Forgets what was stopped and has ended, once that was decided on. Whether there was any.
  bool ForgetStopped();

  // `places`: of each machine.
  std::vector<control::MachineObservation> Observe(const std::vector<MachinePlace>& places) const;
  std::vector<control::MachineObservation> ObserveSpares() const;
  bool running() const;
  // Oldest first: all that are not forgotten.
  const std::vector<AgentProcess>& processes() const { return processes_; }

 private:
  static std::string NameOf(const AgentProcess& process);
  control::MachineObservation ObserveOne(const AgentProcess& process) const;
  AgentProcess* Running(uint32_t machine);

  std::vector<AgentProcess> processes_;
  control::Now start_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_MACHINES_LOCAL_MACHINES_H_
