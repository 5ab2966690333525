// Coordinator: machine 0's side of the gang, as a pure state machine. It agrees on generations with
// the members, ends them on all machines together, finds the root cause and reaches the verdict.
// Machine 0's own member is connected to it like every other member.
//
// A generation: all N have joined -> (old ranks fenced, backoff over) -> PrepareGeneration ->
// START to all -> all report Running -> ... -> STOP to all -> every machine has confirmed its ranks
// dead, or is lost -> root cause -> policy -> the next one, or VERDICT.
//
// Invariants:
//  - its attempt is fixed when it is made and never adopted; n only grows
//  - START is sent only when no rank of any earlier generation can be alive
//  - START, commits and a VERDICT of success need a live lease
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_COORDINATOR_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_COORDINATOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "core/failure/failure.h"
#include "core/gang/coordinator/alone_ranks.h"
#include "core/gang/coordinator/code_versions.h"
#include "core/gang/coordinator/commits.h"
#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/coordinator/desired_state.h"
#include "core/gang/coordinator/edited_code.h"
#include "core/gang/coordinator/folder_writer.h"
#include "core/gang/coordinator/launcher_runs.h"
#include "core/gang/coordinator/memory_copies.h"
#include "core/gang/coordinator/pending_restart.h"
#include "core/gang/coordinator/port_finder.h"
#include "core/gang/coordinator/preflight_rounds.h"
#include "core/gang/coordinator/setbacks.h"
#include "core/gang/diagnosis/hangs.h"
#include "core/gang/diagnosis/root_cause.h"
#include "core/gang/diagnosis/stragglers.h"
#include "core/gang/protocol/generation_record.h"
#include "core/gang/protocol/kvs_exchange.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/protocol/resume.h"
#include "core/gang/roster/lease_clock.h"
#include "core/gang/roster/roster.h"
#include "core/gang/roster/start_fence.h"

namespace lockstep::core {

enum class CoordinatorPhase : uint8_t {
  kGathering,  // not all machines have joined
  kFencing,    // all are in; ranks or leases of earlier generations are not out yet
  kBackoff,    // waits before the next generation
  kPreparing,  // port and generation file
  kStarting,   // START sent; not all ranks are exec'ed
  kRunning,
  kStopping,  // STOP sent; not all ranks are confirmed dead
  kHeld,      // stopped by the operator's desired state until it changes
  kVerdict,   // VERDICT sent; acknowledgements come in
  kDone,
};
template <>
inline constexpr auto kEnumNames<CoordinatorPhase> =
    std::to_array<EnumName<CoordinatorPhase>>({{CoordinatorPhase::kGathering, "Gathering"},
                                               {CoordinatorPhase::kFencing, "Fencing"},
                                               {CoordinatorPhase::kBackoff, "Backoff"},
                                               {CoordinatorPhase::kPreparing, "Preparing"},
                                               {CoordinatorPhase::kStarting, "Starting"},
                                               {CoordinatorPhase::kRunning, "Running"},
                                               {CoordinatorPhase::kStopping, "Stopping"},
                                               {CoordinatorPhase::kHeld, "Held"},
                                               {CoordinatorPhase::kVerdict, "Verdict"},
                                               {CoordinatorPhase::kDone, "Done"}});
inline constexpr int kCoordinatorPhaseCount = static_cast<int>(kEnumNames<CoordinatorPhase>.size());

struct CoordinatorConfig {
  std::string job_uid;
  uint32_t attempt = 1;
  uint32_t machines = 1;
  uint32_t processes = 1;
  // The ranks whose exit 0 makes the job succeed; the other ranks are then stopped. Empty: all.
  std::vector<uint32_t> deciders;
  // The ranks that are restarted alone when they die.
  std::vector<uint32_t> alone;
  // With a launcher: it must ask every other machine to run a command. Else the job fails, because
  // its world was smaller than the spec.
  ProcessNames names;
  bool launcher() const { return names.kind == ProcessKind::kLauncher; }
  FailurePolicy policy;
  Duration grace = seconds(120);  // gracePeriod, for stop requests without their own
  Duration hang_timeout{};
  bool restart_hangs = false;    // a gang in which no rank works for long is restarted
  bool output_counts = false;    // hangTimeout counts steps that are read from the ranks' output
  bool predecessor_dead = true;  // of machine 0
  std::string checkpoint_path;   // named in messages; "": none
  // checkpoint_path is in an object store, which no rank can read: machines get their parts of the
  // checkpoint there into memory before a generation starts.
  bool object_store = false;
  // Each machine's attempt when this machine 0 was made. The coordinator refuses agents of a lower
  // attempt, which may start late. Empty: not known.
  std::vector<uint32_t> attempts;
  // Checkpoints in the machines' memory, and whether each part has a copy on the next machine.
  bool memory = false;
  bool memory_copies = false;
  // interval of writes from memory to checkpoint_path; 0: only at the end
  Duration persist_every{};
  // START has a port for each process, free on its machine, and every machine's address.
  bool ports = false;
  bool one_computer = false;  // all machines share this host and its ports
  // The desired state names the members. Not with memory, preflight, ports, alone or a launcher.
  bool elastic = false;
  bool sync = false;  // users may sync code (core/gang/coordinator/code_versions.h)
  std::optional<PreflightLimits> preflight = {};  // machines are measured before ranks run on them
};

struct Prepared {
  Generation generation;
  std::string master_address;
  uint32_t port = 0;
  std::string resume;     // in an object store: .../2-4/000009.step-1100
  std::string error;      // not empty: preparation failed, and the next number is tried
  uint32_t taken = 0;     // not 0: another job used the number; a number above this one is tried
  uint32_t later = 0;     // not 0: this attempt of machine 0 began this generation or a later one
  bool hopeless = false;  // with `error`: no later try can succeed, so the job fails
  // the commit of `resume`; none if that path is not a commit of this job
  CheckpointId commit = {};
  std::string skip_steps = {};  // as in START
  uint32_t earlier = 0;         // as in GenerationFile
  // With `error`: an earlier checkpoint was asked for, and there is none.
  bool none_earlier = false;
  std::vector<std::string> set_aside = {};  // as in EarlierCheckpoint
};

struct MachineView {
  uint32_t attempt = 0;  // 0: never joined
  bool connected = false;
  bool lost = false;
  bool draining = false;
  bool replace = false;  // the operator must replace it (rule, Unkillable, slow)
  std::string slow;      // the reason, if preflight found it slow
  Duration silent_for{};
  Generation generation;
  MemberPhase phase = MemberPhase::kJoining;
  Binding binding = Binding::kUnknown;
  std::string binding_reason;
  Parked parked;
  std::optional<Usage> usage;  // none: it reported none, or is not connected
};

class Coordinator {
 public:
  Coordinator(CoordinatorConfig config, Time born);

  // ---- events ----
  CoordinatorActions OnMessage(Time now, ConnectionId connection, const Message& message);
  CoordinatorActions OnDisconnect(Time now, ConnectionId connection);
  CoordinatorActions OnPrepared(Time now, const Prepared& prepared);
  CoordinatorActions OnPortsFound(Time now, const FoundPorts& found);
  // `error`: "", or why the checkpoint could not get its final name.
  CoordinatorActions OnPersisted(Time now, CheckpointId to, const std::string& error);
  // Conflict if `desired state` is older than one seen (409), Invalid if it is another job's.
  Result<CoordinatorActions> OnDesiredState(Time now, const DesiredState& desired);
  // A version of the code that machine 0 holds. The errors of CodeVersions::Offer.
  Result<CoordinatorActions> OnCodeOffered(Time now, const CodeOffer& offer);
  // The process that brought code of a user has left. A gang that waits for the next edit goes on
  // waiting.
  CoordinatorActions OnEditorLeft(Time now, const std::string& receiver);
  // The remark on the ranks' world that a job gets if it succeeds now; "": none.
  void OnWorldDoubt(std::string doubt) { ending_.doubt = std::move(doubt); }
  // The launcher started a world of `size` ranks; the job has `wanted`.
  void OnMpiWorld(int64_t size, int64_t wanted) { launcher_.OnWorld(size, wanted); }
  CoordinatorActions OnTimer(Time now);
  Time NextWake() const;

  // ---- state ----
  CoordinatorPhase phase() const { return phase_; }
  Generation generation() const { return generation_; }
  const CoordinatorConfig& config() const { return config_; }
  const Counters& counters() const { return counters_; }
  // Of the latest desired state; 0: none yet.
  uint32_t desired_epoch() const { return orders_.epoch; }
  int64_t desired_observed() const { return orders_.observed; }
  // The id of the last restart that was carried out; "": none.
  const std::string& restarted() const { return orders_.restart.done(); }
  MachineView machine(Time now, uint32_t index) const;
  const std::vector<GenerationRecord>& history() const { return history_; }
  const std::map<uint32_t, RankProgress>& progress() const { return progress_; }
  // Checkpoints that this coordinator has granted.
  uint64_t commits() const { return commits_.granted(); }
  const std::optional<Verdict>& verdict() const { return ending_.verdict; }
  const Failure& last_failure() const { return setbacks_.last(); }
  // For whom the others wait.
  const std::optional<Straggler>& straggler() const { return stragglers_.finder.found(); }
  // The suspected hang, once the ranks were looked at.
  const std::optional<SuspectedHang>& hang() const { return hangs_.finder.found(); }
  // The first metric of this generation that broke a rule whose action is Report.
  const std::optional<Failure>& noted_metric() const { return metrics_.noted; }
  Status AllowsCode(const CodeOffer& offer) const { return codes_.Allows(offer); }
  // Absent where the job has no sync.
  std::optional<SyncedCode> code() const;
  // Absent where the job has no preflight.
  std::optional<PreflightStatus> preflight() const;
  // The checkpoint in memory that a gang which is no more has not written to the folder, and why.
  const std::string& unwritten() const { return folder_.unwritten(); }
  // Why it is in this phase, in words a user can act on.
  std::string Reason() const;
  // When the gang starts again, in phase kBackoff; kNever in other phases.
  Time starts_again() const;
  // Grows with every change that /status shows.
  uint64_t version() const { return outbox_.version(); }
  // A drained machine 0 leaves only when no other machine's ranks depend on it.
  bool MayExit() const;

 private:
  using Slot = Roster::Slot;
  // The stop that is under way, or was last.
  struct Stopping {
    StopReason reason = StopReason::kFailure;
    bool keep = false;  // ranks that can may live on into the next generation
    Time kill_at = kNever;
    std::string words;         // "": its reason says it
    Time settled_at = kNever;  // so long may the peer show itself that a dead process lost
  };
  struct Preparation {
    static constexpr Duration kSlowAfter = seconds(5);
    std::optional<Prepared> prepared;  // while machines get their parts of a checkpoint
    Time slow_at = kNever;
    bool slow = false;
  };
  // What the operator wants.
  struct Orders {
    uint32_t epoch = 0;
    int64_t observed = 0;
    std::optional<DesiredState::DesiredStop> stop;
    Members members;  // of the next generation; empty: it was not said yet
    Members witnesses;
    PendingRestart restart;
    EditedCode code;
  };
  struct StragglerWatch {
    StragglerFinder finder;
    std::set<uint32_t> replaced;
  };
  struct HangWatch {
    HangFinder finder;
    Time step_due = kNever;        // when the finder hears of the gang's step
    std::optional<Duration> hung;  // for how long no rank worked before this generation was stopped
  };
  // Rules about metrics, and the way back to an earlier checkpoint.
  struct Metrics {
    std::vector<FailureRule> rules;         // of this generation's START
    std::optional<Failure> noted;           // broke a rule whose action is Report
    std::optional<EarlierRequest> request;  // of the next generation
    uint32_t earlier = 0;                   // restarts of this kind in the job's life
    std::optional<int64_t> bad;   // the first bad step before the last restart of this kind
    std::optional<int64_t> from;  // the step that it resumed from; 0: the beginning
    // The first step of values that were bad up to the end of the last generation; checkpoints from
    // there on may be bad.
    std::optional<int64_t> suspect;
  };
  struct Ending {
    std::optional<Verdict> failing;  // the verdict, once the last checkpoint is written
    std::optional<Verdict> verdict;
    Time deadline = kNever;
    std::string doubt;  // as OnWorldDoubt has it
  };

  void Handle(Time now, ConnectionId connection, const Hello& hello);
  void Handle(Time now, Slot& slot, const Pong& pong);
  void Handle(Time now, Slot& slot, const ReportMessage& message);
  void Handle(Time now, Slot& slot, const StopRequest& request);
  void Handle(Time now, Slot& slot, const CommitRequest& request);
  void Handle(Time now, Slot& slot, const Progress& progress);
  void Handle(Time now, Slot& slot, const VerdictAck& ack);
  void Handle(Time now, Slot& slot, const HeldParts& memory);
  void Handle(Time now, Slot& slot, const FetchFailed& failed);
  void Handle(Time now, Slot& slot, const Persisted& persisted);
  void Handle(Time now, Slot& slot, const HeldCode& held);
  void Handle(Time now, Slot& slot, const CodeFailed& failed);
  void Handle(Time now, Slot& slot, const Measured& measured);
  void Handle(Time now, Slot& slot, const Run& run);
  void Handle(Time now, Slot& slot, const Ran& ran);
  void Handle(Time now, Slot& slot, const Fence& fence);
  void Handle(Time now, Slot& slot, const FenceMore& more);
  void Handle(Time now, Slot& slot, const PortsTried& tried);
  void Handle(Time now, Slot& slot, const UsageMessage& message);
  void Handle(Time now, Slot& slot, const Looked& looked);

  // Either refuses the message with a reason, or does nothing.
  bool Refuses(ConnectionId connection, const Hello& hello);
  void Replace(Time now, Slot& slot, const Hello& hello, const std::string& how);
  void Resynchronise(Time now, Slot& slot);
  void Apply(Time now, Slot& slot, const Report& report);
  void CountSteps(const Report& report);

  CoordinatorActions Step(Time now);
  void CheckLease(Time now);
  void CheckSilence(Time now);
  void CheckSpawned(Time now);
  // Whether every rank that decides the job's success has exited with 0 in this generation.
  bool Decided() const;
  bool AllFinished() const;
  bool Finished(const Slot& slot) const;
  void CheckFinished(Time now);
  // A rank that can be restarted alone has died, or its death is reported again.
  void LearnAlone(Time now, const Slot& slot, Failure death);
  void CheckAlone(Time now);
  void Obey(Time now, AloneRanks::Answer answer);
  // Once the lease is live, and what is in memory is written.
  void Succeed(Time now);
  void CheckSettled(Time now);
  void CheckHangs(Time now);
  void CheckStopped(Time now);
  void CheckCommits(Time now);
  void CheckLeaving(Time now);
  void CheckReset(Time now);
  void ReplaceStraggler();
  void CheckPreparation(Time now);
  void CouldNotPrepare(Time now, const std::string& why);
  void TryStart(Time now);
  // The phase that blocks the next generation; kPreparing if nothing blocks it.
  CoordinatorPhase Obstacle(Time now) const;
  void ConfirmPredecessors(Time now, Slot& slot);
  void HearPriorMember(Time now, Slot& slot, const Hello& hello);
  // Asks new machines for their figures. True: all figures are known, and no machine must be
  // replaced because of them.
  bool PassedPreflight(Time now);
  PreflightRounds::Attempts Attempts() const;
  void LogFigures();

  void PingAll(Time now);
  // Whether every machine has answered, in this generation, a PING that was sent after this stamp.
  bool AllAnsweredSince(Time stamp) const;
  void PingOne(Time now, const Slot& slot);

  // Starts the generation once every machine has its part of the checkpoint in memory to resume
  // from.
  void CheckPrepared(Time now);
  // That checkpoint; none: the folder's. nullopt: machines get their parts.
  std::optional<CheckpointId> MemoryToBeginFrom();
  void CheckCopies();
  void Announce(Time now, const Prepared& prepared, CheckpointId memory);
  bool DiedSurely(const Slot& slot) const;
  // `evidence`: how long members may first collect the stacks of their ranks.
  void BeginStop(Time now, StopReason reason, Duration grace, Duration evidence = {});
  // No generation follows soon, so processes that wait for one are stopped.
  void StopKept(const Slot& slot);
  void Conclude(Time now);
  void ApplyFailurePolicy(Time now, const Failure& root);
  FailureContext ContextOf(const Failure& root) const;
  void NoteMetric(const Slot& slot, const Report& report);
  void NoteBadSteps(const std::vector<MachineFate>& fates);
  // The next generation resumes from before the root cause's first bad step.
  void GoBack(const FailureRule& rule, const Failure& root);
  void OnEarlierPrepared(const Prepared& prepared);
  void FailWithoutEarlier(Time now, const std::string& why);
  void NoteHalt(const Failure& root);
  void DeliverVerdict(Time now, Verdict verdict);
  // `later` is an attempt of machine 0 above this one.
  void LeaveTo(uint32_t later, const std::string& how);
  // `machine`: the machine concerned; -1: none.
  void FailAsMisconfigured(Time now, int machine, const std::string& what);
  void FailAsSmaller(Time now, const std::string& how);
  void MarkLost(Time now, Slot& slot, Cause cause, std::string how);
  void Wait();
  // Between generations, makes the wanted machines the members.
  void AdoptMembers();
  bool SpreadsCode() const { return !ending_.verdict && !ending_.failing; }
  void TakeCode(Time now, const std::optional<DesiredState::Code>& code);
  void TakeRestart(Time now, const std::optional<DesiredState::Restart>& restart);
  // Ends the request: a generation that is younger than it follows.
  void FinishRestart();
  void BeginRestart(Time now);
  void CheckRestart(Time now);
  void HoldForEdit(const Failure& root);
  // Spreads code between the machines, and ends the generation once all hold a new version.
  void CheckCode(Time now);
  void RunCode(Time now, const CodeOffer& code);
  // Processes that wait for the next generation have other code than it.
  bool KeptHaveOtherCode() const;
  // Whether the wanted members differ from the present ones and are all connected.
  bool MayResize() const;
  // The slot of a rank of this generation; null: it has no such rank.
  Slot* SlotOf(uint32_t rank);
  void Send(const Slot& slot, Message message) { outbox_.Send(slot, std::move(message)); }
  void Log(std::string line) { outbox_.Log(std::move(line)); }
  bool Live() const {
    return phase_ == CoordinatorPhase::kStarting || phase_ == CoordinatorPhase::kRunning;
  }
  StartFence fence() const { return {config_.attempt, roster_, lease_}; }
  GenerationRecord& Record() { return history_.back(); }
  const GenerationRecord& Record() const { return history_.back(); }

  CoordinatorConfig config_;
  const Time born_;
  CoordinatorPhase phase_ = CoordinatorPhase::kGathering;
  Generation generation_;  // the latest prepared generation
  Roster roster_;
  Outbox outbox_;
  LeaseClock lease_;
  StragglerWatch stragglers_;
  HangWatch hangs_;
  std::optional<PreflightRounds> preflight_;
  KvsExchange fences_;
  Counters counters_;

  Stopping stopping_;
  Setbacks setbacks_;

  Commits commits_{roster_, outbox_};

  AloneRanks alone_;
  LauncherRuns launcher_;
  MemoryCopies copies_;
  FolderWriter folder_;
  Preparation preparation_;
  PortFinder ports_;
  CodeVersions codes_;

  Orders orders_;
  Metrics metrics_;
  Ending ending_;

  std::map<uint32_t, RankProgress> progress_;
  std::vector<GenerationRecord> history_;  // the last kMaxHistory
};

inline constexpr size_t kMaxHistory = 64;

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_COORDINATOR_H_
