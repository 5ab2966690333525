// The messages between agents and the coordinator, and their form on the wire
// (docs/reference/protocol.md). The structs are plain values; Encode and Decode are pure.
#ifndef LOCKSTEP_CORE_GANG_PROTOCOL_MESSAGES_H_
#define LOCKSTEP_CORE_GANG_PROTOCOL_MESSAGES_H_

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
#include "core/gang/protocol/generation_record.h"
#include "core/preflight/gpu_clock.h"
#include "core/preflight/preflight.h"
#include "core/terms/generation.h"
#include "core/terms/known_figures.h"
#include "core/terms/members.h"
#include "core/terms/usage.h"

namespace lockstep::core {

// A member's phase in its latest generation.
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

// How the processes of a machine are bound, read back from the kernel: the binding of the least
// bound process.
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
// Whether the processes are bound as requested.
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

// The place of a rank in a generation that hangs: "load_batch (train.py:30)"; or the place that a
// rank reports when it lost its peers: "allreduce 17 "bucket 3" of 4096 bytes".
struct Whereabouts {
  uint32_t rank = 0;
  std::string place;

  friend bool operator==(const Whereabouts&, const Whereabouts&) = default;
};

// A machine's parked interpreters, which become its next ranks (docs/guides/prestart.md).
struct Parked {
  uint32_t ready = 0;
  std::string why_not;  // why they are fewer than its ranks; at most kMaxParkedReason bytes
  Duration saved{};     // most CPU time of imports that parking saved one rank of this generation

  friend bool operator==(const Parked&, const Parked&) = default;
};

// A member's whole state in its latest generation. Sending it twice does no harm.
struct Report {
  Report() = default;
  Report(Generation g, MemberPhase p) : generation(g), phase(p) {}

  Generation generation;
  MemberPhase phase = MemberPhase::kJoining;
  bool lease_expired = false;  // the generation ended here because its lease ran out
  Time lease_expired_at{};     // on the machine's own clock
  int64_t first_step = 0;      // the first reported by any rank; 0: none yet
  int64_t last_step = 0;       // the furthest at the time of this report
  bool unkillable = false;     // a process is alive 30 s after SIGKILL
  Binding binding = Binding::kUnknown;
  std::string binding_reason;  // why it is less than requested; at most kMaxBindingReason bytes
  // Deaths of processes, and hangs: the earliest, at most kMaxDeathsInReport. An exit 0 is not a
  // death.
  std::vector<Failure> deaths;
  // From ranks that lost their peers, or from evidence if a STOP asked for it.
  std::vector<Whereabouts> whereabouts;
  bool warm = false;  // all started ranks came from parked interpreters; set once they run
  Duration loaded{};  // longest time of a rank for loading the checkpoint
  Parked parked;
  // every rank exited with 0 by itself; a later or concurrent STOP changes nothing
  bool finished = false;
  bool decided = false;  // the same for the ranks that decide the job's success
  // The last deaths of ranks that wait to be restarted alone, each rank once.
  std::vector<Failure> down;
  // Ranks whose processes survive: in kStopped those that wait for the next generation, from
  // kStarting on those that came from the previous one.
  std::vector<uint32_t> kept;
  // The first metric of its ranks that broke a rule whose action is Report; empty: none did.
  std::vector<Failure> noted = {};

  friend bool operator==(const Report&, const Report&) = default;
};

// A commit, in memory or on disk: the `number`th of `generation`. The greater of two in one line is
// the later one.
struct CheckpointId {
  Generation generation;
  uint32_t number = 0;  // from 1
  bool exists() const { return generation.exists(); }
  friend auto operator<=>(const CheckpointId&, const CheckpointId&) = default;
};

// One machine's part of a checkpoint in memory. A copy on another machine is the same part.
struct MemoryPart {
  CheckpointId id;
  uint32_t machine = 0;  // the machine that committed it
  std::string name;
  friend auto operator<=>(const MemoryPart&, const MemoryPart&) = default;
};

// Each message has its name and its receiver. Member::OnMessage and Coordinator::OnMessage do not
// compile unless they handle every message that they receive, and close the connection on others.
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
  uint32_t machines = 0;  // the job's shape: agents with another shape are refused
  uint32_t processes = 0;
  uint32_t machine0_attempt = 0;  // the highest that this agent knows
  // the operator knows that the previous attempt is dead, or there is none
  bool predecessor_dead = false;
  bool draining = false;    // it got SIGTERM and takes part in no further generation
  Duration silence{};       // time since its last answer to any coordinator's PING
  Duration lease_length{};  // the largest L under which that coordinator granted a lease
  Time now{};
  Counters counters;
  Report report;
  std::string address;  // the IP at which other machines reach this one's ranks
};

struct Pong {
  static constexpr MessageKind kKind{"PONG", Receiver::kCoordinator};
  Time ping_sent{};  // stamp of the answered PING
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
  std::string name = {};     // name of that checkpoint, the same on all machines
  std::string problem = {};  // why this machine cannot keep its part; "": it can
};

// A figure under a name of the program, such as an accuracy, with its last value.
struct NamedFigure {
  std::string name;
  double value = 0;

  friend bool operator==(const NamedFigure&, const NamedFigure&) = default;
};
// Most named figures of one machine: its first ones. 64 ranks with that many fit a message.
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
  int64_t total_steps = 0;                                 // 0: not reported
  double loss = std::numeric_limits<double>::quiet_NaN();  // NaN: not reported
  double tokens_per_second = 0;
  int64_t waits = 0;     // steps of this generation with a reported wait in
  double waited = 0;     // collectives; sum of these waits in seconds
  double throttled = 0;  // seconds in which the CPU limit stopped its machine's threads
  KnownFigures known{};
  int32_t gpu = -1;  // index of its GPU on its machine; -1: not reported
  GpuClock gpu_clock{};
  std::vector<NamedFigure> figures{};  // in the order of their names
  StepSource source = StepSource::kReports;
  double loaded = 0;  // seconds; only in the machine's Report
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

// All parts of checkpoints in memory that this machine holds.
struct HeldParts {
  static constexpr MessageKind kKind{"MEMORY", Receiver::kCoordinator};
  std::string address;  // IP:PORT that serves them to others
  std::vector<MemoryPart> parts;
};

// The part could not be fetched; the coordinator names another holder.
struct FetchFailed {
  static constexpr MessageKind kKind{"FETCH_FAILED", Receiver::kCoordinator};
  MemoryPart part;
  std::string reason;
};

// PERSIST is done; `error`: why not.
struct Persisted {
  static constexpr MessageKind kKind{"PERSISTED", Receiver::kCoordinator};
  CheckpointId id;
  std::string error;
  CheckpointId to = {};                 // as in PERSIST
  std::vector<uint32_t> machines = {};  // the same
};

// The results of MEASURE, as far as available.
struct Measured {
  static constexpr MessageKind kKind{"MEASURED", Receiver::kCoordinator};
  uint64_t id = 0;                    // as in MEASURE
  bool linked = false;                // the same
  Figures figures;                    // figures of the machine by itself
  std::string address;                // IP:PORT for its partners; "": none
  std::string token;                  // the token that partners must send
  std::vector<double> rates;          // with `linked`: GB/s, by partner; 0: not reached
  std::vector<GpuFigures> gpus = {};  // at most kMaxGpus
};

// The versions of the program's code that this machine holds, in a job with sync. A version is
// named by the digest of its manifest.
struct HeldCode {
  static constexpr MessageKind kKind{"CODE", Receiver::kCoordinator};
  std::string address;  // IP:PORT that serves them to others
  std::vector<std::string> digests;
  // The last START here that named code, and which; none: no START did.
  Generation generation;
  std::string ran;
};

// The version could not be fetched.
struct CodeFailed {
  static constexpr MessageKind kKind{"CODE_FAILED", Receiver::kCoordinator};
  std::string digest;
  std::string reason;
};

// The answer to TRY_PORTS.
struct PortsTried {
  static constexpr MessageKind kKind{"PORTS_TRIED", Receiver::kCoordinator};
  Generation generation;
  uint32_t first = 0;  // as in TRY_PORTS
  uint32_t taken = 0;  // the first of these ports that is in use here; 0: all are free
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
  Duration age{};        // time since the oldest of all members' last answered PINGs was sent
  Duration length{};     // L
};

struct Ping {
  static constexpr MessageKind kKind{"PING", Receiver::kMember};
  Time sent{};  // the coordinator's clock; strictly increasing
  uint32_t machine0_attempt = 0;
  LeaseGrant lease;
};

// The ports of a machine's processes: process l listens at this address on port `first` + l.
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
  std::string resume;     // the checkpoint to resume from; "": none
  uint32_t restarts = 0;  // global: generations before this one
  Duration hang_timeout{};
  Counters counters;
  LeaseGrant lease;
  // resume from this checkpoint in memory, of which every machine has its part; none: `resume`
  CheckpointId memory;
  std::vector<MachinePorts> ports;  // by machine; empty if no framework needs them
  // The digest of the code that ranks run; "": that of the image, or the job has no sync.
  std::string code = {};
  Members members = {};                 // its members; empty: all machines
  std::vector<FailureRule> rules = {};  // about metrics
  std::string skip_steps = {};          // LOCKSTEP_SKIP_STEPS

  // This machine's place among the members: the first rank of place p is p x processes.
  uint32_t PlaceOf(uint32_t machine) const {
    return members.empty() ? machine : members.PlaceOf(machine);
  }
};

struct Stop {
  static constexpr MessageKind kKind{"STOP", Receiver::kMember};
  Generation generation;
  StopReason reason = StopReason::kFailure;
  Duration grace{};     // SIGTERM first and SIGKILL after this; 0: SIGKILL at once
  Duration evidence{};  // before that: time limit for collecting stacks of the ranks; 0: none
  bool keep = false;    // ranks that can take part in the next generation may stay alive
  // The cause is a death that no peer's end causes. Ranks that say why they fail need no time then.
  bool sure = false;
};

struct CommitReply {
  static constexpr MessageKind kKind{"COMMIT_REPLY", Receiver::kMember};
  uint64_t id = 0;
  bool granted = false;
  uint32_t number = 0;  // number of this commit in its generation, from 1
  std::string reason;   // if not granted
};

struct Verdict {
  static constexpr MessageKind kKind{"VERDICT", Receiver::kMember};
  Generation generation;
  uint32_t exit_code = 0;  // 0, 70, 77 or 78
  Failure failure;         // for a success the last failure before it, or cause kNone
  std::string reason;
  // The last generations that have ended, as LastEnded gives them, since machine 0's agent was
  // born. The operator may not have asked while they ran.
  std::vector<GenerationRecord> ended = {};
};

// Fetch this part from the agent at that address, or from the object store, and hold it.
struct Fetch {
  static constexpr MessageKind kKind{"FETCH", Receiver::kMember};
  MemoryPart part;
  std::string address;  // "": the object store
};

// Drop every part that is older than the last of these and not one of them.
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

// A member that got SIGTERM and stayed for its checkpoints in memory may leave.
struct Dismiss {
  static constexpr MessageKind kKind{"DISMISS", Receiver::kMember};
  Generation generation;  // the last prepared generation
};

// A machine to measure a link with.
struct Partner {
  uint32_t machine = 0;
  std::string address;
  std::string token;
};

// Measure while no rank runs; MEASURED follows. First the machine by itself, while it serves
// partners; then, with `linked`, the links with these partners one by one.
struct Measure {
  static constexpr MessageKind kKind{"MEASURE", Receiver::kMember};
  uint64_t id = 0;  // of the two steps together
  bool linked = false;
  bool alone = true;  // not `linked`: measure products, memory and disk, too
  std::vector<Partner> partners = {};
};

// Run this command by a shell on that machine, as a process of the generation; RAN follows. Machine
// 0's member sends it, and the coordinator forwards it. It is sent again if it may be lost.
struct Run {
  static constexpr MessageKind kKind{"RUN", Receiver::kBoth};
  Generation generation;
  uint64_t id = 0;  // chosen by machine 0's member, unique in the generation
  uint32_t machine = 0;
  std::string command;  // at most kMaxRunCommand bytes
  friend bool operator==(const Run&, const Run&) = default;
};
inline constexpr size_t kMaxRunCommand = size_t{8} * 1024;

// The command of RUN has ended, or never began. The answer goes back the same way.
struct Ran {
  static constexpr MessageKind kKind{"RAN", Receiver::kBoth};
  Generation generation;
  uint64_t id = 0;
  uint32_t machine = 0;
  uint32_t exit_code = 0;  // as in a shell: 128 + the signal's number; 255: it never began
  std::string problem;     // why it never began, or its last words if it failed
  friend bool operator==(const Ran&, const Ran&) = default;
};
inline constexpr uint32_t kExitNeverBegan = 255;  // the exit code of ssh in that case

// An entry that one rank shares with the others through a service (PMI) before they can communicate
// directly.
struct TableEntry {
  std::string key;
  std::string value;
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

// From a member: all its ranks wait in the `number`th fence of the generation, and have put these
// entries since the last one. To a member: all machines' ranks wait, and these are all entries. In
// parts, from 0; the coordinator sends one at a time (core/gang/protocol/kvs_exchange.h).
struct Fence {
  static constexpr MessageKind kKind{"FENCE", Receiver::kBoth};
  Generation generation;
  uint32_t number = 0;  // from 1
  uint32_t part = 0;
  bool last = false;
  std::vector<TableEntry> entries = {};
};

// From a member: a request for this part.
struct FenceMore {
  static constexpr MessageKind kKind{"FENCE_MORE", Receiver::kCoordinator};
  Generation generation;
  uint32_t number = 0;
  uint32_t part = 0;
};

// Check whether these ports are free, while no rank runs; PORTS_TRIED follows.
struct TryPorts {
  static constexpr MessageKind kKind{"TRY_PORTS", Receiver::kMember};
  Generation generation;  // the generation that will use them
  uint32_t first = 0;
  uint32_t count = 0;
};

// Restart this rank alone in the running generation. A repeated message has no effect.
struct StartAgain {
  static constexpr MessageKind kKind{"START_AGAIN", Receiver::kMember};
  Generation generation;
  uint32_t rank = 0;
  Time died{};  // the `at` of the death in the REPORT that this answers
};

// From a member, from time to time.
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

// Fetch this version of the code from the agent at that address, and hold it.
struct FetchCode {
  static constexpr MessageKind kKind{"FETCH_CODE", Receiver::kMember};
  std::string digest;
  std::string address;
};

// The order is the wire's: a message's type byte is its index, from 1. Append only.
using Message =
    std::variant<Hello, Pong, ReportMessage, StopRequest, CommitRequest, Progress, VerdictAck,
                 Welcome, Refused, Ping, Start, Stop, CommitReply, Verdict, HeldParts, FetchFailed,
                 Persisted, Fetch, Keep, Persist, Dismiss, Measure, Measured, Run, Ran, Fence,
                 FenceMore, TryPorts, PortsTried, StartAgain, UsageMessage, Look, Looked, HeldCode,
                 FetchCode, CodeFailed>;

inline constexpr size_t kMaxMessage = 64 * 1024;  // bytes of one encoded message, type included

// "HELLO", "PING", ...
const char* NameOf(const Message& message);

// Type byte and fields, big-endian; see docs/reference/protocol.md.
std::string Encode(const Message& message);

// Invalid for an unknown type, a field out of range, bytes missing or left over.
Result<Message> Decode(std::string_view bytes);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_PROTOCOL_MESSAGES_H_
