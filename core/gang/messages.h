// What agents say to the coordinator and hear from it, and its form on the wire
// (docs/reference/protocol.md). The structs are plain values; Encode and Decode are pure.
#ifndef LOCKSTEP_CORE_GANG_MESSAGES_H_
#define LOCKSTEP_CORE_GANG_MESSAGES_H_

#include <array>
#include <compare>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/text/enum_names.h"
#include "base/time.h"
#include "core/failure/counters.h"
#include "core/failure/failure.h"
#include "core/gang/generation_record.h"
#include "core/preflight/gpu_clock.h"
#include "core/preflight/preflight.h"
#include "core/terms/generation.h"
#include "core/terms/members.h"
#include "core/terms/usage.h"

namespace lockstep::core {

// Where a member stands in its latest generation.
enum class MemberPhase : uint8_t {
  kJoining,   // not yet welcomed by a coordinator; no ranks
  kIdle,      // welcomed; no generation seen yet
  kStarting,  // START accepted; ranks are being exec'ed
  kRunning,   // every rank was exec'ed
  kFinished,  // every rank exited 0; waits for the others
  kStopping,  // signals sent; some process may still be alive
  kStopped,   // everything of the generation is dead
  kExiting,   // verdict acknowledged, drained or fenced
};
template <>
inline constexpr auto kEnumNames<MemberPhase> =
    std::to_array<EnumName<MemberPhase>>({{MemberPhase::kJoining, "Joining"},
                                          {MemberPhase::kIdle, "Idle"},
                                          {MemberPhase::kStarting, "Starting"},
                                          {MemberPhase::kRunning, "Running"},
                                          {MemberPhase::kFinished, "Finished"},
                                          {MemberPhase::kStopping, "Stopping"},
                                          {MemberPhase::kStopped, "Stopped"},
                                          {MemberPhase::kExiting, "Exiting"}});
inline constexpr int kMemberPhaseCount = static_cast<int>(kEnumNames<MemberPhase>.size());
// Whether a process of the generation may be alive in this phase.
bool MayHaveLiveRanks(MemberPhase phase);

// How the processes of a machine are bound, read back from the kernel: as the least bound of them.
enum class Binding : uint8_t {
  kUnknown,  // nothing runs, or nothing was asked for
  kNone,     // they run where they like
  kPartial,  // bound, but not all of it as asked
  kNode,     // as asked, as are all that follow
  kSocket,
  kCoreComplex,
  kExclusive,
  kInterleave,
  kMap,
};
// Whether the processes are bound as was asked.
constexpr bool IsAsAsked(Binding binding) { return binding >= Binding::kNode; }
template <>
inline constexpr auto kEnumNames<Binding> =
    std::to_array<EnumName<Binding>>({{Binding::kUnknown, ""},
                                      {Binding::kNone, "None"},
                                      {Binding::kPartial, "Partial"},
                                      {Binding::kNode, "Node"},
                                      {Binding::kSocket, "Socket"},
                                      {Binding::kCoreComplex, "CoreComplex"},
                                      {Binding::kExclusive, "Exclusive"},
                                      {Binding::kInterleave, "Interleave"},
                                      {Binding::kMap, "Map"}});

inline constexpr size_t kMaxStderrTail = 1024;
inline constexpr size_t kMaxBindingReason = 200;
inline constexpr size_t kMaxParkedReason = 200;
inline constexpr size_t kMaxDeathsInReport = 16;
inline constexpr size_t kMaxDownInReport = 16;
inline constexpr size_t kMaxPlace = 120;               // bytes
inline constexpr size_t kMaxWhereaboutsInReport = 64;  // ranks of one machine

// Where a rank of a generation that hangs was found: "load_batch (train.py:30)"; or where it says
// that it stood when it lost its peers: "allreduce 17 "bucket 3" of 4096 bytes".
struct Whereabouts {
  uint32_t rank = 0;
  std::string place;

  friend bool operator==(const Whereabouts&, const Whereabouts&) = default;
};

// A machine's interpreters that wait to be its next ranks (docs/guides/prestart.md).
struct Parked {
  uint32_t ready = 0;
  std::string why_not;  // why they are fewer than its ranks; at most kMaxParkedReason bytes
  Duration saved{};     // CPU time of imports that its ranks of this generation found done, of the
                        // rank with the most

  friend bool operator==(const Parked&, const Parked&) = default;
};

// A member's whole state in its latest generation; saying it twice does no harm.
struct Report {
  Report() = default;
  Report(Generation g, MemberPhase p) : generation(g), phase(p) {}

  Generation generation;
  MemberPhase phase = MemberPhase::kJoining;
  bool lease_expired = false;  // the generation ended here because its lease ran out
  Time lease_expired_at{};     // on the machine's own clock
  int64_t first_step = 0;      // the first that some rank reported; 0: none yet
  int64_t last_step = 0;       // the furthest, when this was said
  bool unkillable = false;     // a process outlived SIGKILL by 30 s
  Binding binding = Binding::kUnknown;
  std::string binding_reason;  // why it is less than asked; at most kMaxBindingReason bytes
  // Of processes, and hangs: the earliest, at most kMaxDeathsInReport; exits 0 are none.
  std::vector<Failure> deaths;
  // As ranks say it that lost their peers, or as evidence shows them, where a STOP asked for it.
  std::vector<Whereabouts> whereabouts;
  bool warm = false;  // who was started came of a parked interpreter; said once they run
  Duration loaded{};  // what the slowest rank says that it loaded the checkpoint for
  Parked parked;
  bool finished = false;  // every rank exited 0 and was not asked to; a STOP that comes later, or
                          // was on its way, changes nothing
  bool decided = false;   // likewise, of those ranks on whose exits the job's success hangs
  // The last deaths of ranks that wait to be started again alone; a rank is here once.
  std::vector<Failure> down;
  // Ranks whose processes are not started anew: in kStopped those that wait for the next
  // generation, from kStarting on those that came from the one before.
  std::vector<uint32_t> kept;

  friend bool operator==(const Report&, const Report&) = default;
};

// A commit, in memory or on disk: the `number`th of `generation`. Of two in one line the greater is
// further.
struct CheckpointId {
  Generation generation;
  uint32_t number = 0;  // from 1
  bool exists() const { return generation.exists(); }
  friend auto operator<=>(const CheckpointId&, const CheckpointId&) = default;
};

// What one machine committed of a checkpoint in memory; a copy of it elsewhere is the same part.
struct MemoryPart {
  CheckpointId id;
  uint32_t machine = 0;  // that committed it
  std::string name;
  friend auto operator<=>(const MemoryPart&, const MemoryPart&) = default;
};

// Each message names itself and who receives it. Member::OnMessage and Coordinator::OnMessage do
// not compile unless they handle every message that they receive, and close the connection on
// others.
enum class Receiver : uint8_t { kCoordinator, kMember, kBoth };
struct MessageKind {
  const char* name;
  Receiver receiver;
};

// ---- member to coordinator ----

struct Hello {
  static constexpr MessageKind kKind{"HELLO", Receiver::kCoordinator};
  std::string job_uid;
  uint32_t machine = 0;
  uint32_t attempt = 0;
  uint32_t machines = 0;  // the job's shape: agents of another shape are refused
  uint32_t processes = 0;
  uint32_t machine0_attempt = 0;  // the highest this agent knows of
  bool predecessor_dead = false;  // the operator saw the attempt before this one dead, or it is
                                  // the first
  bool draining = false;          // got SIGTERM: will not take part in another generation
  Duration silence{};             // since it last answered any coordinator's PING
  Duration lease_length{};        // the largest L under which that coordinator granted a lease
  Time now{};
  Counters counters;
  Report report;
  std::string address;  // the IP at which other machines reach this one's ranks
};

struct Pong {
  static constexpr MessageKind kKind{"PONG", Receiver::kCoordinator};
  Time ping_sent{};  // of the PING answered
  Time now{};        // the member's clock
  Generation generation;
  MemberPhase phase = MemberPhase::kJoining;
};

struct ReportMessage {
  static constexpr MessageKind kKind{"REPORT", Receiver::kCoordinator};
  Report report;
};

struct StopRequest {
  static constexpr MessageKind kKind{"STOP_REQUEST", Receiver::kCoordinator};
  StopReason reason = StopReason::kDraining;
  Duration grace{};
};

struct CommitRequest {
  static constexpr MessageKind kKind{"COMMIT_REQUEST", Receiver::kCoordinator};
  uint64_t id = 0;  // chosen by the member
  Generation generation;
  bool memory = false;       // this machine's part of a checkpoint in memory
  std::string name = {};     // of that, the same on all machines
  std::string problem = {};  // why this machine can't keep its part; "": it can
};

// What a program calls a figure of its own, such as an accuracy, and its last value.
struct NamedFigure {
  std::string name;
  double value = 0;

  friend bool operator==(const NamedFigure&, const NamedFigure&) = default;
};
// Of one machine: its first names. 64 ranks with as much fit a message.
inline constexpr size_t kMaxNamedFigures = 8;
inline constexpr size_t kMaxFigureName = 64;  // bytes

// Where a rank's step comes from.
enum class StepSource : uint8_t {
  kReports,  // the program reported it
  kOutput,   // the program printed it
  kEpochs,   // computed from epochs that the program printed
};
template <>
inline constexpr auto kEnumNames<StepSource> =
    std::to_array<EnumName<StepSource>>({{StepSource::kReports, "Reports"},
                                         {StepSource::kOutput, "Output"},
                                         {StepSource::kEpochs, "Epochs"}});

struct RankProgress {
  uint32_t rank = 0;
  int64_t step = 0;
  int64_t total_steps = 0;                                 // 0: not said
  double loss = std::numeric_limits<double>::quiet_NaN();  // NaN: not said
  double tokens_per_second = 0;
  int64_t waits = 0;     // steps, of this generation, of which it said how long it waited in its
  double waited = 0;     // collectives; seconds, of all of them
  double throttled = 0;  // seconds in which its machine's threads stood still for their CPU limit
  double teraflops = 0;  // TFLOP/s; 0: not said
  double mfu = 0;        // share of its hardware's peak; 0: not said
  double scaling = 0;    // scaling efficiency: its speed, against that alone; 0: not said
  int32_t gpu = -1;      // its machine's number of its GPU; -1: not said
  GpuClock gpu_clock{};
  std::vector<NamedFigure> figures{};  // in the order of their names
  StepSource source = StepSource::kReports;
  double loaded = 0;  // seconds; of the machine's Report, and told with that alone
};

struct Progress {
  static constexpr MessageKind kKind{"PROGRESS", Receiver::kCoordinator};
  Generation generation;
  std::vector<RankProgress> ranks;
};

struct VerdictAck {
  static constexpr MessageKind kKind{"VERDICT_ACK", Receiver::kCoordinator};
  Generation generation;
};

// All that this machine holds of checkpoints in memory.
struct Memory {
  static constexpr MessageKind kKind{"MEMORY", Receiver::kCoordinator};
  std::string address;  // IP:PORT, where others get it from
  std::vector<MemoryPart> parts;
};

// It could not be got; whoever asked says where else it is.
struct FetchFailed {
  static constexpr MessageKind kKind{"FETCH_FAILED", Receiver::kCoordinator};
  MemoryPart part;
  std::string reason;
};

// What PERSIST asked for is done, unless `error` says why not.
struct Persisted {
  static constexpr MessageKind kKind{"PERSISTED", Receiver::kCoordinator};
  CheckpointId id;
  std::string error;
  CheckpointId to = {};                 // as PERSIST said
  std::vector<uint32_t> machines = {};  // likewise
};

// What MEASURE asked for, as far as it could be had.
struct Measured {
  static constexpr MessageKind kKind{"MEASURED", Receiver::kCoordinator};
  uint64_t id = 0;                    // as MEASURE said
  bool linked = false;                // likewise
  Figures figures;                    // of the machine alone
  std::string address;                // IP:PORT where its partners find it; "": nowhere
  std::string token;                  // what they say there
  std::vector<double> rates;          // of `linked`: GB/s, by partner; 0: it could not be reached
  std::vector<GpuFigures> gpus = {};  // at most kMaxGpus
};

// What TRY_PORTS asked.
struct PortsTried {
  static constexpr MessageKind kKind{"PORTS_TRIED", Receiver::kCoordinator};
  Generation generation;
  uint32_t first = 0;  // as TRY_PORTS said
  uint32_t taken = 0;  // the first of them on which something listens here; 0: all are free
};

// ---- coordinator to member ----

struct Welcome {
  static constexpr MessageKind kKind{"WELCOME", Receiver::kMember};
  uint32_t machine0_attempt = 0;  // the coordinator's
  Counters counters;
};

enum class RefusalCode : uint8_t {
  kWrongJob,
  kWrongShape,
  kNoSuchMachine,
  kLowerAttempt,
  kReplaced
};
template <>
inline constexpr auto kEnumNames<RefusalCode> =
    std::to_array<EnumName<RefusalCode>>({{RefusalCode::kWrongJob, "WrongJob"},
                                          {RefusalCode::kWrongShape, "WrongShape"},
                                          {RefusalCode::kNoSuchMachine, "NoSuchMachine"},
                                          {RefusalCode::kLowerAttempt, "LowerAttempt"},
                                          {RefusalCode::kReplaced, "Replaced"}});

struct Refused {
  static constexpr MessageKind kKind{"REFUSED", Receiver::kMember};
  RefusalCode code = RefusalCode::kWrongJob;
  std::string reason;
};

// Grants a lease until echo + 0.8 length - age, on the member's clock.
struct LeaseGrant {
  bool present = false;  // false until the member has answered a first PING
  Time echo{};           // the member's time in its last PONG
  Duration age{};        // since the sending of the oldest of the last PINGs answered, over all
  Duration length{};     // L
};

struct Ping {
  static constexpr MessageKind kKind{"PING", Receiver::kMember};
  Time sent{};  // the coordinator's clock; strictly increasing
  uint32_t machine0_attempt = 0;
  LeaseGrant lease;
};

// Where a machine's processes may listen: process l at this address, on port `first` + l.
struct MachinePorts {
  std::string address;  // an IP
  uint32_t first = 0;
  friend bool operator==(const MachinePorts&, const MachinePorts&) = default;
};

struct Start {
  static constexpr MessageKind kKind{"START", Receiver::kMember};
  Generation generation;
  std::string master_address;  // an IP
  uint32_t master_port = 0;
  std::string resume;     // the checkpoint to resume from; "" none
  uint32_t restarts = 0;  // global: generations before this one
  Duration hang_timeout{};
  Counters counters;
  LeaseGrant lease;
  CheckpointId memory;  // resume from this one, of which every machine has its part; none: `resume`
  std::vector<MachinePorts> ports;  // by machine; empty where no framework asks for them
  Members members = {};             // whom it is made of; empty: all machines

  // Where this machine stands among them: the ranks of place p are p x processes and those after.
  uint32_t PlaceOf(uint32_t machine) const {
    return members.empty() ? machine : members.PlaceOf(machine);
  }
};

struct Stop {
  static constexpr MessageKind kKind{"STOP", Receiver::kMember};
  Generation generation;
  StopReason reason = StopReason::kFailure;
  Duration grace{};     // SIGTERM first and SIGKILL after this; 0: SIGKILL at once
  Duration evidence{};  // before that: how long may be looked where the ranks are; 0: not at all
  bool keep = false;    // ranks that can take part in the next generation may live on
};

struct CommitReply {
  static constexpr MessageKind kKind{"COMMIT_REPLY", Receiver::kMember};
  uint64_t id = 0;
  bool granted = false;
  uint32_t number = 0;  // of this commit in its generation, from 1
  std::string reason;   // when not granted
};

struct Verdict {
  static constexpr MessageKind kKind{"VERDICT", Receiver::kMember};
  Generation generation;
  uint32_t exit_code = 0;  // 0, 70, 77 or 78
  Failure failure;         // of a success the last one that was overcome, or cause kNone
  std::string reason;
  // The last generations that have ended, as LastEnded gives them, since machine 0's agent was
  // born. The operator may not have asked while they ran.
  std::vector<GenerationRecord> ended = {};
};

// Get this part from the agent at that address, and hold it.
struct Fetch {
  static constexpr MessageKind kKind{"FETCH", Receiver::kMember};
  MemoryPart part;
  std::string address;
};

// All that is older than the last of these, and none of them, is dropped.
struct Keep {
  static constexpr MessageKind kKind{"KEEP", Receiver::kMember};
  std::vector<CheckpointId> ids;
};

// Write these machines' parts, as held here, to the checkpoint folder, below the commit `to`;
// PERSISTED follows.
struct Persist {
  static constexpr MessageKind kKind{"PERSIST", Receiver::kMember};
  CheckpointId id;
  CheckpointId to;
  std::string name;
  std::vector<uint32_t> machines = {};
  friend bool operator==(const Persist&, const Persist&) = default;
};

// Whoever got SIGTERM and stayed for what it holds may leave.
struct Dismiss {
  static constexpr MessageKind kKind{"DISMISS", Receiver::kMember};
  Generation generation;  // the last that was prepared
};

// A machine to measure a link with.
struct Partner {
  uint32_t machine = 0;
  std::string address;
  std::string token;
};

// Measure while no rank runs; MEASURED follows. First the machine alone, and be there for partners;
// then, `linked`, the links with these, one after the other.
struct Measure {
  static constexpr MessageKind kKind{"MEASURE", Receiver::kMember};
  uint64_t id = 0;  // of the two steps together
  bool linked = false;
  bool alone = true;  // not `linked`: measure products, memory and disk, too
  std::vector<Partner> partners = {};
};

// Run this, by a shell, on that machine as a process of the generation; RAN follows. Machine 0's
// member asks for it, and the coordinator hands it on; it is said again where it may be lost.
struct Run {
  static constexpr MessageKind kKind{"RUN", Receiver::kBoth};
  Generation generation;
  uint64_t id = 0;  // chosen by machine 0's member, and its own in the generation
  uint32_t machine = 0;
  std::string command;  // at most kMaxRunCommand bytes
  friend bool operator==(const Run&, const Run&) = default;
};
inline constexpr size_t kMaxRunCommand = size_t{8} * 1024;

// What RUN asked for has ended, or never began. It goes back the same way.
struct Ran {
  static constexpr MessageKind kKind{"RAN", Receiver::kBoth};
  Generation generation;
  uint64_t id = 0;
  uint32_t machine = 0;
  uint32_t exit_code = 0;  // as a shell tells it: 128 and the signal's number; 255: it never began
  std::string problem;     // why it never began, or its last words where it failed
  friend bool operator==(const Ran&, const Ran&) = default;
};
inline constexpr uint32_t kExitNeverBegan = 255;  // what ssh says then

// What one rank tells the others before they can talk to one another, through a service of theirs
// (PMI).
struct TableEntry {
  std::string key;
  std::string value;
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

// From a member: all its ranks wait in the `number`th fence of the generation, and have put these
// since the last. To it: so do all machines', and these are everybody's. In parts, from 0, of which
// the coordinator sends one at a time (core/gang/fence.h).
struct Fence {
  static constexpr MessageKind kKind{"FENCE", Receiver::kBoth};
  Generation generation;
  uint32_t number = 0;  // from 1
  uint32_t part = 0;
  bool last = false;
  std::vector<TableEntry> entries = {};
};

// From a member: this part, too.
struct FenceMore {
  static constexpr MessageKind kKind{"FENCE_MORE", Receiver::kCoordinator};
  Generation generation;
  uint32_t number = 0;
  uint32_t part = 0;
};

// Look whether these ports are free, while no rank runs; PORTS_TRIED follows.
struct TryPorts {
  static constexpr MessageKind kKind{"TRY_PORTS", Receiver::kMember};
  Generation generation;  // that is to have them
  uint32_t first = 0;
  uint32_t count = 0;
};

// Start this rank again, alone, in the generation that runs. What is told twice is done once.
struct StartAgain {
  static constexpr MessageKind kKind{"START_AGAIN", Receiver::kMember};
  Generation generation;
  uint32_t rank = 0;
  Time died{};  // the `at` of the death in the REPORT that this answers
};

// From a member, now and then.
struct UsageMessage {
  static constexpr MessageKind kKind{"USAGE", Receiver::kCoordinator};
  Usage usage;
  RankActivity activity = {};
};

// A hang is suspected: tell where the ranks are. They go on.
struct Look {
  static constexpr MessageKind kKind{"LOOK", Receiver::kMember};
  Generation generation;
  Duration patience{};  // how long may be looked
};

// What LOOK asked for.
struct Looked {
  static constexpr MessageKind kKind{"LOOKED", Receiver::kCoordinator};
  Generation generation;
  std::vector<Whereabouts> whereabouts;  // at most kMaxWhereaboutsInReport
};

// The order is the wire's: a message's type byte is its index, from 1. Append only.
using Message =
    std::variant<Hello, Pong, ReportMessage, StopRequest, CommitRequest, Progress, VerdictAck,
                 Welcome, Refused, Ping, Start, Stop, CommitReply, Verdict, Memory, FetchFailed,
                 Persisted, Fetch, Keep, Persist, Dismiss, Measure, Measured, Run, Ran, Fence,
                 FenceMore, TryPorts, PortsTried, StartAgain, UsageMessage, Look, Looked>;

inline constexpr size_t kMaxMessage = 64 * 1024;  // bytes of one encoded message, type included

// "HELLO", "PING", ...
const char* NameOf(const Message& message);

// Type byte and fields, big-endian; see docs/reference/protocol.md.
std::string Encode(const Message& message);

// Invalid for an unknown type, a field out of range, bytes missing or left over.
Result<Message> Decode(std::string_view bytes);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_MESSAGES_H_
