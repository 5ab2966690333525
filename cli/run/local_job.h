// LocalJob: one job on this computer as operator/policy decides about it. What happens to its
// agents goes in, what is to be done to them comes out. Pure.
#ifndef LOCKSTEP_CLI_RUN_LOCAL_JOB_H_
#define LOCKSTEP_CLI_RUN_LOCAL_JOB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/run/machines/local_machines.h"
#include "core/model/spec.h"
#include "core/status/status.h"
#include "operator/policy/facts/decision.h"

namespace lockstep::cli {

// What is to be done now, in this order.
struct LocalStep {
  struct Signal {
    uint32_t machine = 0;
    bool kill = false;  // else it is asked to leave
    const char* why = "";
  };

  // The status that stood before the one that is to be recorded now.
  std::optional<core::JobStatus> before;
  std::vector<control::EventNote> events;  // of what is recorded, or seen
  std::vector<Signal> signals;
  std::vector<uint32_t> start;  // machines, at their attempts in the status; spares
  bool more = false;            // decide again at once
  Time wake = kNever;           // else then, though nothing happens
};

class LocalJob {
 public:
  // `start` is one moment on both clocks; `epoch` the last that was recorded; `places` are of
  // each machine.
  LocalJob(core::TrainingJob job, uint32_t epoch, std::vector<MachinePlace> places,
           control::Now start);

  // ---- what happens ----

  // Its user wants it to stop.
  void Suspend();
  // The agent of this machine ended, with all that it started.
  void OnEnd(uint32_t machine, control::MachineEnd end);
  // That end was not seen: the machine's computer was lost. For as long as the gang may not have
  // noticed, what the agent started is not called dead.
  void OnLostTouch(uint32_t machine, Time at);
  // Somebody asks for a new generation. Each call is another request.
  void RequestRestart(core::RestartRequest request);
  // The code that the next generation runs. `watched`: somebody edits it.
  void SetCode(core::CodeStatus code, bool watched);
  // The gang is held, with its agents as they are, until Release. `words`: who asked and why.
  void Hold(std::string words);
  void Release() { hold_.reset(); }
  // Machines that get no place from now on, once they are lost, until others are named.
  void SetUnschedulable(core::Members machines);
  // An agent's answer. False: of a machine 0 whose time is over.
  bool OnStatus(const core::GangStatus& status, Time at);
  // Whether machine 0 has taken desired(). True when that is news to decide on.
  bool OnAccepted(bool accepted);

  LocalStep Decide(Time now);

  // ---- what is known ----

  const core::TrainingJob& job() const { return job_; }
  const core::JobStatus& status() const { return status_; }
  const std::optional<core::DesiredState>& desired() const { return desired_; }
  const LocalMachines& machines() const { return machines_; }
  // The newest attempt of machine 0; null when there is none.
  const AgentProcess* machine0() const;
  // Its last answer, if it still runs.
  const core::GangStatus* gang() const;
  bool over() const;
  bool holding() const { return hold_.has_value(); }
  // No rank runs, and none will start before Release.
  bool held() const;
  // Whether nothing of this machine's earlier attempts can be alive.
  bool PredecessorsDead(uint32_t machine, Time now) const;
  // It ends, or has ended: nobody's place is taken any more.
  bool stopping() const;

 private:
  control::Snapshot TakeSnapshot() const;
  void TellNoEndOfTheUnsure(Time now);

  core::TrainingJob job_;
  std::vector<MachinePlace> places_;
  LocalMachines machines_;
  core::JobStatus status_;
  control::PolicyState memory_;
  std::optional<control::GangReport> coordinator_;
  std::optional<control::GangReport> member_;
  std::optional<core::DesiredState> desired_;
  core::Members unschedulable_;
  std::map<uint32_t, Time> unsure_until_;  // machines whose earlier attempts may be alive
  std::optional<std::string> hold_;        // why
  int64_t held_since_ = 0;                 // the generation_ of the first word about it
  bool watched_ = false;                   // somebody edits status_.code
  bool accepted_ = false;                  // desired_ was
  int64_t generation_ = 1;                 // of the spec: a stop changes it
  uint32_t restarts_ = 0;                  // requests, each with its own id
  uint32_t spares_started_ = 0;            // each has its own name
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_LOCAL_JOB_H_
