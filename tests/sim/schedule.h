// Schedule: one job from start to verdict, and what is done to it. The seed draws the job's shape,
// the clocks and every delay; the faults stand beside it as a list, so that a shrunk or a
// handwritten case keeps its world and loses only its faults.
#ifndef LOCKSTEP_TESTS_SIM_SCHEDULE_H_
#define LOCKSTEP_TESTS_SIM_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/gang/coordinator/coordinator.h"

namespace lockstep::sim {

enum class FaultKind : uint8_t {
  kExit,           // a rank exits; arg: its code
  kSignal,         // a rank dies of a signal; arg: which
  kSpawnFailure,   // the machine's next exec fails with 127
  kHang,           // the collective stands still
  kKillAgent,      // SIGKILL: the container and all in it die
  kOutOfMemory,    // likewise, and the kubelet says OOMKilled
  kStopAgent,      // SIGSTOP for a time; the ranks run on
  kKillGuard,      // the guard process dies
  kCut,            // connections are reset and lose what is in flight
  kPartition,      // the machine is isolated; arg: kFromPeers, kFromOperator, kReset
  kDelay,          // its messages take up to arg ms
  kSlowDeath,      // SIGKILL takes arg ms on it
  kSlowSpawn,      // an exec takes up to arg ms on it
  kDrain,          // the machine is asked to leave; arg: grace, ms
  kSuspend,        // for a time; of `lockstep run`, for good
  kSetL,           // machineLostAfter becomes arg ms
  kOperatorDown,   // for a time
  kOperatorPause,  // between raising the epoch and creating pods; another leader takes over
  kSlowVolume,     // operations take up to arg ms
  kLateRename,     // the next granted rename lands this much later
  kStaleService,   // the coordinator's Service points to the last machine 0 for this long
  kDeleteNode,     // the machine's pods vanish; kubelet ends their containers up to arg ms later
  kNoRoom,         // what is made meanwhile gets no node, and an older job waits for one as well
  kTermAgent,      // SIGTERM to the agent, by one of its ranks
  kStopGuard,      // SIGSTOP to the guard process, while its agent runs
  kGreed,          // another namespace replaces as many machines as it may, for a time
  kGoBack,   // all that the API server holds is what it held so long before, as it was restored
  kUnalign,  // its ranks turn out to be bound otherwise than the job requires
  // Beyond what Lockstep excludes: only schedules of Limits() have these.
  kFreeze,       // the machine stands still with its clock, as a hypervisor lets it
  kJumpAhead,    // its clock shows arg ms more
  kForceDelete,  // its pods go from the API server, though they run behind a partition
  // Only schedules with spares have these.
  kEvictSpare,  // the first spare's pod fails
  kStuckSpare,  // the first spare's node dies for good, and nobody sees it
  // Only schedules of jobs in a queue have this.
  kPreempt,  // what it was admitted to is wanted by others, for a time
  // Only every eleventh schedule of a cluster has this.
  kSickNode,  // the machine's node is cordoned, for a time
};
inline constexpr int kFaultKindCount = 35;
inline constexpr int kDrawnFaultKinds = 28;
const char* ToString(FaultKind kind);

inline constexpr uint32_t kFromPeers = 1;
inline constexpr uint32_t kFromOperator = 2;
inline constexpr uint32_t kReset = 4;  // connections do not survive the partition

struct Fault {
  FaultKind kind = FaultKind::kExit;
  // `at` counts from the job's start, or from the `entry`-th time that a coordinator comes into
  // `phase`.
  std::optional<core::CoordinatorPhase> phase;
  uint32_t entry = 1;
  Time at{};
  Duration duration{};
  uint32_t machine = 0;
  uint32_t local_rank = 0;
  uint32_t arg = 0;

  // "stop-agent on=Preparing/1 at=3ms for=2500ms machine=0 rank=0 arg=0"
  std::string ToString() const;
};
Result<Fault> ParseFault(const std::string& line);

// What the job is like.
struct Shape {
  uint32_t machines = 2;
  uint32_t processes = 1;
  Duration lost_after{};     // L at first
  Duration start_timeout{};  // until a gang without nodes lets go
  Duration grace{};
  Duration restart_grace{};
  Duration hang_timeout{};
  Duration step{};
  int64_t steps = 10;
  int64_t commit_every = 3;
  int64_t memory_every = 0;  // commits in memory; 0: none
  bool persists = false;     // those go to the volume, at the end at least
  Duration persist_every{};
  bool object_store = false;  // the volume is one: ranks cannot read it, and commit in memory alone
  int max_restarts = 3;
  bool machine0_decides =
      false;               // successPolicy: Machine0; most others serve until they are stopped
  bool alone = false;      // ranks of machines but 0 are started again alone
  bool in_place = false;   // most ranks can outlive their generation
  bool preflight = false;  // machines are measured before ranks start on them
  bool elastic = false;    // it goes on with any number of machines
  Duration shrink_after{};
  Duration grow_after{};
  bool moves_now = false;    // nodeHealth: Now; else AtCheckpoint
  bool moves_never = false;  // nodeHealth: Ignore
  bool synced = false;       // a user syncs code now and then
  bool ports = false;        // each rank gets ports, and learns those of the others
  bool peers_fail = false;   // collectives of a dead rank's peers end in errors
  Duration network{};        // of a message, at most
  int64_t skew = 0;          // clocks' rates differ from the truth by at most this, in millionths
};
// Whether the rank's death is no matter of the others'.
inline bool IsAlone(const Shape& shape, uint32_t rank) {
  return shape.alone && rank >= shape.processes;
}
Shape DrawShape(uint64_t seed, const std::vector<Fault>& faults);

struct Schedule {
  uint64_t seed = 0;
  // What is switched off: core::Rules and weaknesses of the simulator's own, joined by '+'.
  std::string mutant;
  std::vector<Fault> faults;
  uint32_t spares = 0;   // of a cluster: spare machines
  bool queued = false;   // of a cluster: the job waits in a queue of Kueue's
  bool slices = false;   // an elastic one, which Kueue may change the size of
  bool cluster = false;  // under the operator of a cluster; else under `lockstep run`

  bool Off(const std::string& name) const;
};

// At least two faults of different kinds; the kinds and how they follow each other are drawn from
// the seed. A mutant has its own leanings, so that it is caught soon.
Schedule DrawSchedule(uint64_t seed, const std::string& mutant = "", bool cluster = false);

// The text form: "seed N", "mutant NAME", "cluster", "spares N", "queued", "slices", "fault ..."
// lines; '#' begins a comment.
std::string Format(const Schedule& schedule);
Result<Schedule> ParseSchedule(const std::string& text);

}  // namespace lockstep::sim

#endif  // LOCKSTEP_TESTS_SIM_SCHEDULE_H_
