// Invariants: what must hold at every moment of every schedule (architecture.md, "Fencing" and
// "Proving it"). They look at the whole world with true time, which nothing in it can.
#ifndef LOCKSTEP_TESTS_SIM_INVARIANTS_H_
#define LOCKSTEP_TESTS_SIM_INVARIANTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/gang/coordinator/coordinator.h"
#include "tests/sim/network.h"

namespace lockstep::sim {

class World;
class Machine;
struct Process;

struct Violation {
  std::string invariant;
  std::string detail;
};

// No counter of `a` is below `b`'s.
bool AtLeast(const core::Counters& a, const core::Counters& b);

class Invariants {
 public:
  explicit Invariants(World& world) : world_(world) {}

  const std::optional<Violation>& violation() const { return violation_; }
  void Violate(const char* invariant, std::string detail);

  void OnListed(core::Generation generation);
  void OnComplete(core::CheckpointId commit, const std::string& path, int64_t step);
  // What was `id` in memory has become commit `to`, of these machines' parts.
  void OnWritten(core::CheckpointId to, core::CheckpointId id, const std::set<uint32_t>& parts);
  void OnStart(const Machine& zero, Node member, const core::Start& start);
  // By machine 0's agent `zero`.
  void OnAskedToMeasure(Node zero, Node member);
  void OnMeasured(Node zero, Node member);
  void OnExec(const Machine& machine, const Process& process, const core::Start& start);
  // A machine was granted its part.
  void OnMemoryCommit(core::CheckpointId id);
  void OnFetchFailed(const Machine& machine, core::CheckpointId id);
  // `memory_name`: of a commit in memory; "" of one on disk.
  void OnCommitGranted(const Machine& zero, const std::string& memory_name);
  Time committed_at() const { return committed_at_; }  // last
  // Its coordinator says that the gang is held, or how the job ends.
  void OnGangEnds(const Machine& zero);
  void OnVerdict(const core::Verdict& verdict);
  void OnCounted(const core::Verdict& verdict);
  void OnAgentExit(const Machine& machine);
  void OnCoordinator(const Machine& zero);
  void OnProcessFault(core::Generation generation, uint32_t rank, int exit_code, int signal);
  void OnOtherFault(Time until);
  // A fault that is charged to the application happened to some process.
  void OnApplicationFault() { ++application_faults_; }
  // From now on the loss of this machine has a reason.
  void OnMachineTouched(uint32_t index) { touched_.insert(index); }
  void OnReplacement(uint32_t index, const Machine* current);
  // Looks at what no single event shows.
  void Sample();

 private:
  struct Run {
    core::Generation generation;
    Node coordinator = 0;
    Time started{};
    std::vector<Node> members;
    uint32_t executed = 0;  // counted over all generations; 0: not yet
    std::string resume;
    std::optional<std::string> code;       // that its first rank ran
    core::CheckpointId memory;             // what it begins from; none: from `resume`
    std::set<core::CheckpointId> commits;  // in memory, its own and those it has in its line
    std::vector<std::string> checkpoints;  // complete
    int64_t step_before_successor = -1;    // the newest complete before a later one listed
    int64_t newest_step = 0;
    uint32_t newest_number = 0;
    std::vector<std::pair<Time, core::CheckpointId>> whole;  // in memory, and since when
    core::CheckpointId not_got;  // the last that a machine failed to get
  };
  struct ProcessFault {
    core::Generation generation;
    uint32_t rank;
    int exit_code;
    int signal;
    Time at;
    bool alone;
  };

  Run* Find(core::Generation generation);
  void CheckLine(Run& run);
  void CheckMemory(Run& run, const Run* before);
  void CheckCopies(const Machine& zero);
  Duration LeaseBound() const;
  void CheckWaking(const Machine& machine);
  Time LastPong(Node node, uint32_t machine0_attempt) const;
  void CheckRootCause(const core::GenerationRecord& record);
  void CheckCharges(const Machine& zero);
  void CheckAlone(const core::Coordinator& coordinator, const core::GenerationRecord& record);

  World& world_;
  std::optional<Violation> violation_;
  std::map<core::Generation, Run> runs_;
  uint32_t executed_ = 0;
  Time committed_at_ = -hours(1);
  std::vector<ProcessFault> faults_;
  uint32_t application_faults_ = 0;
  std::set<uint32_t> touched_;
  // By (machine 0, member): when that one has measured itself for this one, or was given up.
  std::map<std::pair<Node, Node>, Time> measured_;
  Time others_until_ = Time::min();
  std::map<Node, size_t> judged_;
  std::map<Node, core::Counters> counters_;
  struct Charges {
    core::Generation generation;
    core::Counters at_first;  // in that generation
    uint32_t alone = 0;
    Time since{};  // the last rank was started again alone
  };
  std::map<Node, Charges> charges_;
};

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_INVARIANTS_H_
