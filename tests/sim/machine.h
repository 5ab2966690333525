// Machine: one container: the agent with its member (machine 0: and the coordinator), the guard
// process and the ranks. The agent carries out what core's state machines ask for, as worker/agent
// does on a real machine. It can be killed, and stopped while guard and ranks go on.
#ifndef LOCKSTEP_TESTS_SIM_MACHINE_H_
#define LOCKSTEP_TESTS_SIM_MACHINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/gang/coordinator/coordinator.h"
#include "core/gang/diagnosis/standstill.h"
#include "core/gang/member/member.h"
#include "tests/sim/clock.h"
#include "tests/sim/network.h"

namespace lockstep::sim {

class World;

// How the simulator names it, as what training goes on from.
std::string InMemory(core::CheckpointId id);

struct Process {
  uint32_t pid = 0;
  uint32_t rank = 0;
  core::Generation generation;
  Time lease_end{};         // of its machine when SIGKILL was sent; true time
  Time killed = kNever;     // when SIGKILL was sent
  bool terminated = false;  // SIGTERM was sent
  bool rejoins = false;     // it can take part in the generation after its own
  bool told = false;        // that its own has ended
  bool left = false;        // it acts in none, and waits for the next
  std::string code;         // that it was started with; "": the image's
};

struct MachineSpec {
  uint32_t index = 0;
  uint32_t attempt = 1;
  uint32_t machine0_attempt = 1;
  bool predecessor_dead = true;
  std::vector<uint32_t> attempts;  // of all machines, as recorded
};

class Machine {
 public:
  Machine(World& world, Node node, const MachineSpec& spec, Clock clock);

  void Boot();

  // ---- the network ----
  void OnMessage(core::ConnectionId id, core::Message message);
  void OnDisconnected(core::ConnectionId id);
  void OnMessageFromPeer(core::ConnectionId id, core::Message message);
  void OnPeerGone(core::ConnectionId id);

  // ---- the ranks ----
  void OnProgress(uint32_t rank, int64_t step);
  void OnCommit(core::Generation generation);
  void OnMemoryCommit(core::Generation generation, const std::string& name);
  void EndProcess(uint32_t pid, int exit_code, int signal);
  // As it does by itself, in its generation, unless it has left that.
  void Exit(uint32_t pid, core::Generation generation, int exit_code);

  // ---- the user ----
  // Brings code to machine 0, which may refuse it.
  void TakeCode(const std::string& digest);

  // ---- the operator ----
  void OnDesiredState(const core::DesiredState& desired);
  // `evidence`: whoever replaces it can see that it was asked to leave.
  void Terminate(Duration grace, bool evidence = true);
  void ShowAsked() { asked_in_the_open_ = true; }

  // ---- faults ----
  void Kill(bool out_of_memory);
  void Stop(Duration duration);
  void KillGuard();
  void StopGuard(Duration duration);
  // The whole machine stands still, and its clock with it.
  void Freeze(Duration duration);
  void JumpAhead(Duration by);
  void FailRank(uint32_t local_rank, int exit_code, int signal);
  void FailNextSpawn() { fail_next_spawn_ = true; }
  void SlowDeath(Duration delay, Duration duration);
  void Unalign();
  void SlowSpawn(Duration most, Duration duration);

  // ---- what others see ----
  Node node() const { return node_; }
  const MachineSpec& spec() const { return spec_; }
  std::string Name() const;
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }
  bool frozen() const { return frozen_; }
  // The last time that it had stood still with its clock.
  struct Waking {
    Time at = kNever;
    Duration stood_still{};
    uint32_t next_pid = 0;  // of what was started later
  };
  const Waking& woke() const { return woke_; }
  bool terminated() const { return terminated_at_ != kNever; }  // the container: nothing lives
  Time terminated_at() const { return terminated_at_; }
  bool out_of_memory() const { return out_of_memory_; }
  int exit_code() const { return exit_code_; }
  const std::optional<core::Verdict>& verdict() const { return verdict_; }
  uint32_t needs_epoch() const { return needs_epoch_; }
  bool asked_to_leave() const { return asked_to_leave_; }
  bool asked_in_the_open() const { return asked_in_the_open_; }
  // "": it is one on disk.
  std::string MemoryCommit(uint64_t id) const {
    const auto found = memory_commits_.find(id);
    return found == memory_commits_.end() ? "" : found->second;
  }
  const core::Member& member() const { return member_; }
  const core::Coordinator* coordinator() const { return coordinator_ ? &*coordinator_ : nullptr; }
  const std::vector<Process>& processes() const { return processes_; }
  // It can serve the part to another machine.
  bool Serves(const core::MemoryPart& part) const;
  bool ServesCode(const std::string& digest) const;
  // Alive, as far as fencing goes: what got SIGKILL is dead once the machine's lease is out too.
  bool Counts(const Process& process) const;
  Time Local() const;
  Time born() const { return born_; }  // as its own clock showed it
  Time last_pong(uint32_t machine0_attempt) const;
  // When its ranks were first told to go, other than by their own deaths.
  Time left(core::Generation generation) const;

 private:
  template <typename F>
  void InAgent(F&& event) {
    if (!alive_) return;
    if (stopped_) {
      backlog_.emplace_back(std::forward<F>(event));
      return;
    }
    LookForStandstill();
    event();
    Settle();
  }

  void CarryOut(core::MemberActions actions);
  void CarryOut(core::CoordinatorActions actions);
  void CarryOut(core::SendToCoordinator& action);
  void CarryOut(core::Disconnect& action);
  void CarryOut(core::Spawn& action);
  void CarryOut(core::StopProcesses& action);
  void CarryOut(core::SetLease& action);
  void CarryOut(core::AnswerCommit& action);
  void CarryOut(core::FetchPart& action);
  void FetchStored(const core::MemoryPart& part);
  void CarryOut(core::FetchVersion& action);
  void HoldCode(const std::string& digest);
  void CarryOut(core::DropParts& action);
  void CarryOut(core::PersistPart& action);
  void CarryOut(core::FinishPersisting& action);
  void CarryOut(core::ExitAgent& action);
  void CarryOut(core::MemberLog& action);
  // None comes before its time is up: what waits for it must do without.
  void CarryOut(core::CollectEvidence&) {}
  void CarryOut(core::MeasureMachine& action);
  void CarryOut(core::RunCommand&) {}  // no launcher runs in this world,
  void CarryOut(core::AnswerRun&) {}
  void CarryOut(core::DeliverFence&) {}  // and no rank asks for a fence
  void CarryOut(core::ProbePorts& action);
  void CarryOut(core::SpawnAgain& action);
  void CarryOut(core::SendTo& action);
  void CarryOut(core::CloseConnection& action);
  void CarryOut(core::PrepareGeneration& action);
  void CarryOut(core::FindPorts& action);
  void CarryOut(core::ExitCoordinator& action);
  void CarryOut(core::CoordinatorLog& action);

  void LookForStandstill();
  void Settle();
  void Arm();
  void RunTimers();
  void Connect();
  void Resume();
  void Hold(const core::MemoryPart& part, Duration after);
  bool HasPart(const core::MemoryPart& part) const;
  void Write(const core::Persist& persist, bool held);
  void EndMeasure(uint64_t id, bool linked);
  void Exec(const core::Start& start, uint32_t local_rank);
  void ExecAgain(core::Generation generation, uint32_t rank);
  void Run(const core::Start& start, uint32_t rank);
  void TakeIn(const core::Start& start, uint32_t rank);
  void CountSpawned(core::Generation generation);
  // It will leave its generation, in its time.
  void TellEnd(Process& process);
  void KillProcess(Process& process);
  void KillGeneration(core::Generation generation, const std::set<uint32_t>& spared);
  void KillAll();
  void CheckAllDead();
  void CheckTerminated();
  void ArmGuard();
  void GuardGoesOn();
  void GuardWakes();
  void Leave(int code);
  Process* Find(uint32_t pid);
  bool Alive(core::Generation generation, const std::set<uint32_t>& spared) const;
  void MarkLeft(core::Generation generation);

  World& world_;
  Node node_;
  MachineSpec spec_;
  Clock clock_;
  Time born_;
  core::Standstill standstill_;
  core::Member member_;
  std::optional<core::Coordinator> coordinator_;

  bool alive_ = true;  // the agent
  bool stopped_ = false;
  Time stopped_until_{};
  std::vector<std::function<void()>> backlog_;
  Time wake_ = kNever;
  core::ConnectionId connection_ = 0;
  bool connecting_ = false;
  Duration connect_backoff_ = milliseconds(10);
  std::deque<std::pair<bool, core::Message>> local_;  // bool: to the coordinator
  core::CoordinatorPhase phase_seen_ = core::CoordinatorPhase::kGathering;

  std::vector<Process> processes_;
  core::Generation spawning_;
  core::Start start_;               // of the last generation
  std::vector<std::string> codes_;  // that it holds, the newest last
  std::string tree_;                // the code in the ranks' folder; "": the image's
  uint32_t spawned_ = 0;
  struct Stopping {
    core::Generation generation;
    Time kill_at{};  // true time
    std::set<uint32_t> spared;
  };
  std::optional<Stopping> stopping_;
  std::optional<core::Measure> measuring_;
  bool fail_next_spawn_ = false;
  uint32_t next_port_ = 20'000;
  Duration death_delay_{};
  Time death_delay_until_{};
  Duration spawn_delay_{};
  Time spawn_delay_until_{};

  bool guard_alive_ = true;
  bool guard_stopped_ = false;
  bool frozen_ = false;
  Waking woke_;
  Time guard_wake_ = kNever;      // true time
  Time lease_end_ = Time::min();  // what the guard reads; local

  std::optional<core::ExitAgent> leaving_;
  Time leave_by_ = kNever;  // whoever still needs it
  std::vector<core::Persist> persisting_;
  Time volume_free_{};  // what it writes there, it writes one after the other
  uint32_t needs_epoch_ = 0;
  bool asked_to_leave_ = false;
  bool asked_in_the_open_ = false;
  std::optional<core::Verdict> verdict_;
  int exit_code_ = -1;
  bool out_of_memory_ = false;
  Time terminated_at_ = kNever;
  struct AskedCommit {
    core::Generation generation;
    std::string name;  // of a part in memory; "": on disk
  };
  std::map<uint64_t, AskedCommit> commits_;
  std::map<uint64_t, std::string> memory_commits_;  // names, also of those that are answered
  uint64_t next_commit_ = 1;
  std::vector<std::pair<uint32_t, Time>> pongs_;  // machine 0's attempt, when last answered
  std::vector<std::pair<core::Generation, Time>> left_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_MACHINE_H_
