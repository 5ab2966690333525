// Member: one machine's side of the gang, as a pure state machine. An event and the time go in;
// actions come out, to be carried out in order. It owns no socket, process or timer. The agent
// (worker/agent) carries out its actions on a real machine, tests/sim in virtual time.
//
// Life of a generation: START -> Spawn -> OnSpawned -> running -> deaths are reported at once ->
// STOP -> StopProcesses -> OnAllDead -> the report says Stopped. A connection may be lost at any
// point: the next HELLO carries the whole report, so nothing is lost with it.
//
// Invariants:
//  - ranks live only while the lease does; the lease is read before anything else at every event
//  - no lease outlives a standstill of the machine's clock that OnStoodStill reports
//  - no generation starts at or below one that this member knows
//  - a process survives into another generation only if it has reported that it left the last
//  - the member obeys no coordinator below the highest known attempt of machine 0
//  - exit codes 0, 70, 77 and 78 follow a VERDICT only
#ifndef LOCKSTEP_CORE_GANG_MEMBER_MEMBER_H_
#define LOCKSTEP_CORE_GANG_MEMBER_MEMBER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "core/gang/diagnosis/metric_watch.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::core {

struct MemberConfig {
  std::string job_uid;
  uint32_t machine = 0;
  uint32_t attempt = 1;
  uint32_t machines = 1;
  uint32_t processes = 1;
  uint32_t machine0_attempt = 1;  // the highest known when this agent was made
  bool predecessor_dead = true;
  std::string address = {};  // the IP at which other machines reach this machine's ranks
  std::string memory_address =
      {};  // IP:PORT that serves its checkpoints in memory; "": it keeps none
  std::string code_address = {};  // IP:PORT that serves its code; "": the job has no sync
  // The ranks that decide the job's success by exit 0, if not all do.
  std::vector<uint32_t> deciders = {};
  // Ranks that are restarted alone when they die.
  std::vector<uint32_t> alone = {};
  // Whether hangTimeout counts steps that are read from the ranks' output.
  bool output_counts = false;
};

// ---- actions ----

struct SendToCoordinator {
  Message message;
};
// Close the connection and, unless `final`, connect again.
struct Disconnect {
  std::string reason;
  bool final = false;
};
// Bind and exec the ranks; answer with OnSpawned, or with OnProcessDied for each failed rank.
// `lease_end` is in force from the first process on. Ranks in `kept` are alive, and are told about
// the new generation.
struct Spawn {
  Start start;
  Time lease_end{};
  std::vector<uint32_t> kept = {};
};
// SIGTERM to every process group and SIGKILL at `kill_at`; SIGKILL at once if that is not in the
// future. Then sweep, and answer with OnAllDead. May come again with an earlier `kill_at` or fewer
// `spared`. The agent neither signals nor awaits spared ranks and their descendants. It tells them
// once that their generation has ended; OnLeft follows for each rank that has left it.
struct StopProcesses {
  Generation generation;
  Time kill_at{};
  std::set<uint32_t> spared = {};
  bool sure = false;  // as in Stop
};
// Look where the ranks are and answer with OnEvidence. They are stopped then, or at `until`; unless
// `look`: answer with OnLooked, and they go on.
struct CollectEvidence {
  Generation generation;
  Time until{};
  bool look = false;
};
// The guard process reads it from shared memory. It never moves back within a generation.
struct SetLease {
  Time end{};
};
struct AnswerCommit {
  uint64_t id = 0;  // as given to OnCommit
  bool granted = false;
  uint32_t number = 0;
  std::string reason;
};
// Fetch the part, and answer with OnPartHeld or OnFetchFailed.
struct FetchPart {
  Fetch fetch;
};
struct DropParts {
  std::vector<MemoryPart> parts;
};
// Fetch the version of the code, and answer with OnCodeHeld or OnCodeFailed.
struct FetchVersion {
  FetchCode fetch;
};
// Answer with OnPersisted.
struct PersistPart {
  Persist persist;
};
// Answer with Measured. A first step ends an earlier measurement; a Spawn ends any.
struct MeasureMachine {
  Measure measure;
};
// Run the command as a process of its generation; answer with OnRan.
struct RunCommand {
  Run run;
};
// The command of OnRun has ended.
struct AnswerRun {
  uint64_t id = 0;  // as given to OnRun
  uint32_t exit_code = 0;
  std::string problem;
};
// The entries of all machines' ranks before the fence of OnFence. The ranks continue after the last
// part.
struct DeliverFence {
  Generation generation;
  std::vector<TableEntry> entries;
  bool last = false;
};
// Answer with PortsTried.
struct ProbePorts {
  TryPorts ports;
};
// Restart one rank of the running generation as it was started at first, unless the lease has
// ended. No descendant of its last process may be alive. If the rank cannot be started, answer with
// OnProcessDied.
struct SpawnAgain {
  Generation generation;
  uint32_t rank = 0;
  Time lease_end{};
};
// Exit with this code once all sent bytes have gone out. `verdict` is set for 0, 70, 77, 78.
struct ExitAgent {
  int code = 0;
  std::optional<Verdict> verdict;
  std::string reason;
};
struct MemberLog {
  std::string line;
};

using MemberAction = std::variant<SendToCoordinator, Disconnect, Spawn, StopProcesses, SetLease,
                                  AnswerCommit, FetchPart, DropParts, PersistPart, ExitAgent,
                                  MemberLog, CollectEvidence, MeasureMachine, RunCommand, AnswerRun,
                                  DeliverFence, ProbePorts, SpawnAgain, FetchVersion>;
using MemberActions = std::vector<MemberAction>;

class Member {
 public:
  explicit Member(MemberConfig config);

  // ---- events; each returns the actions to carry out now ----
  MemberActions OnConnected(Time now);
  MemberActions OnDisconnected(Time now);
  MemberActions OnMessage(Time now, const Message& message);
  MemberActions OnSpawned(Time now, Generation generation, bool warm = false);
  // How its ranks are bound; `reason` explains a binding that is less than requested.
  MemberActions OnBound(Time now, Generation generation, Binding binding, std::string reason);
  MemberActions OnParked(Time now, Generation generation, Parked parked);
  // A process ended with other than exit code 0, could not be started, or hangs.
  MemberActions OnProcessDied(Time now, Generation generation, Failure death);
  // A process exited with 0. `by_itself`: before it was signalled, even if this is reported later.
  MemberActions OnProcessFinished(Time now, Generation generation, uint32_t rank, bool by_itself);
  // No process of this generation or its descendants is alive, except those that StopProcesses
  // spared.
  MemberActions OnAllDead(Time now, Generation generation);
  // A rank reports that its process can take part in the next generation. `can` false: the process
  // that reported so is gone.
  MemberActions OnRejoins(Time now, Generation generation, uint32_t rank, bool can);
  // A spared rank reports that it no longer acts in this generation.
  MemberActions OnLeft(Time now, Generation generation, uint32_t rank);
  // 30 s after SIGKILL a process is still alive.
  MemberActions OnUnkillable(Time now, Generation generation);
  // What CollectEvidence of a LOOK found.
  MemberActions OnLooked(Time now, Generation generation, std::vector<Whereabouts> whereabouts);
  // The result of CollectEvidence.
  MemberActions OnEvidence(Time now, Generation generation, std::vector<Whereabouts> whereabouts);
  // The place that a rank reports when it lost its peers, or waited for them too long.
  MemberActions OnPlace(Time now, Whereabouts whereabouts);
  MemberActions OnProgress(Time now, const RankProgress& progress);
  // The figures of one report or line of a rank, for the rules about metrics. NaN and infinite
  // values are among them.
  MemberActions OnFigures(Time now, uint32_t rank, int64_t step,
                          const std::vector<NamedFigure>& figures);
  // Whether this generation has such rules.
  bool watches_metrics() const { return !metrics_.empty(); }
  // Resource usage of its ranks, from time to time.
  MemberActions OnUsage(Time now, const Usage& usage, const RankActivity& activity = {});
  // A process asks to commit; `id` comes back in AnswerCommit.
  MemberActions OnCommit(Time now, uint64_t id);
  // The same for this machine's part of a checkpoint in memory. `problem`: why the part cannot be
  // kept.
  MemberActions OnMemoryCommit(Time now, uint64_t id, std::string name, std::string problem);
  // The whole part is in this machine's memory.
  MemberActions OnPartHeld(Time now, MemoryPart part);
  MemberActions OnFetchFailed(Time now, MemoryPart part, std::string reason);
  MemberActions OnPersisted(Time now, Persisted persisted);
  // The versions of the code that are whole here, the newest last.
  MemberActions OnCodeHeld(Time now, std::vector<std::string> digests);
  MemberActions OnCodeFailed(Time now, const std::string& digest, std::string reason);
  // Measured and PortsTried, to what the coordinator asked. Dropped while no coordinator has
  // welcomed this machine.
  MemberActions OnAnswer(Time now, Message answer);
  // A process of `generation` on machine 0 wants this command run on another machine. The unique
  // `id` comes back in AnswerRun.
  MemberActions OnRun(Time now, Run run);
  MemberActions OnRan(Time now, Ran ran);
  // All its ranks wait in a fence and have put these entries since the last one; DeliverFence
  // follows.
  MemberActions OnFence(Time now, Generation generation, std::vector<TableEntry> entries);
  // SIGTERM to the agent: stop the gang, then exit with 143.
  MemberActions OnTerminate(Time now, Duration grace);
  // The guard killed the ranks, or is gone and could not be replaced.
  MemberActions OnGuardKilled(Time now);
  // The machine and its clock stood still for this long (Standstill), so measured leases are wrong
  // by as much. Call this before other events of the same moment.
  MemberActions OnStoodStill(Time now, Duration duration);
  MemberActions OnTimer(Time now);

  // When OnTimer must be called; kNever if no time matters.
  Time NextWake() const;

  // ---- state, for /status, tests and the simulator ----
  MemberPhase phase() const { return report_.phase; }
  const Report& report() const { return report_; }
  Generation generation() const { return report_.generation; }
  // The phase of this machine in this generation.
  uint32_t first_rank() const { return start_.PlaceOf(config_.machine) * config_.processes; }
  bool connected() const { return connected_; }
  bool welcomed() const { return welcomed_; }
  // Processes may be alive here, of a generation or between two.
  bool HasRanks() const { return MayHaveLiveRanks(phase()) || rejoin_.keeping; }
  // Processes of a generation that has ended, or ends, are spared for the next one.
  bool keeping() const { return rejoin_.keeping; }
  Time lease_end() const { return lease_.end; }
  uint32_t machine0_attempt() const { return machine0_attempt_; }
  // Time since the last PING: this member's view of machine 0's silence.
  Duration coordinator_silence(Time now) const;
  const MemberConfig& config() const { return config_; }
  const Counters& counters() const { return counters_; }
  const std::map<uint32_t, RankProgress>& progress() const { return progress_.of; }
  const std::vector<MemoryPart>& parts() const { return parts_; }

 private:
  struct GrantedLease {
    Time end = Time::min();
    Duration length{};                 // the largest granted in report_.generation
    Time trusted_since = Time::min();  // by an older time no lease is measured
  };
  // How the generation is stopped.
  struct Stopping {
    bool signalled = false;  // this machine has signalled its ranks
    Time kill_at = kNever;
    Time evidence_until = kNever;  // a STOP waits for the evidence of a hang
    Duration evidence_grace{};     // its grace
    bool others_dead = false;      // all that are not spared
  };
  struct Rejoining {
    // Ranks that can take part in the next generation; while `keeping`, those that are spared.
    std::set<uint32_t> ranks;
    std::set<uint32_t> left;  // of them, those that have left this one
    bool keeping = false;     // some live on, though their generation has ended
    Time until = kNever;      // who has not left it by then is killed
  };
  // What is heard of machine 0.
  struct Heard {
    Time last_ping = Time::min();  // from any coordinator that is obeyed
    Time at = kNever;              // from this connection's peer, or since it stands
    Time last_event = kNever;
    Duration silence_limit = seconds(15);  // L, as last granted
    Time last_answer = Time::min();        // of any coordinator's PING
  };
  struct Stood {
    Duration duration{};      // of late, with its clock
    Time at = Time::min();    // the last time
    bool pong_first = false;  // the report waits: the next START needs its echo
  };
  struct AskedCommit {
    uint64_t id = 0;  // as given to OnCommit
    CommitRequest request;
  };
  struct AskedCommits {
    std::map<uint64_t, AskedCommit> asked;  // by the id on the wire
    uint64_t next_id = 1;
  };
  struct WaitingFence {
    std::vector<std::vector<TableEntry>> parts;  // of this machine
    uint32_t next = 0;                           // part of everybody's
  };
  struct Fences {
    std::optional<WaitingFence> waiting;  // in which this generation's ranks wait
    uint32_t number = 0;                  // the latest of this generation
  };
  struct RanksProgress {
    std::map<uint32_t, RankProgress> of;
    std::map<uint32_t, Time> last;
    Time next = kNever;  // when what `of` holds is sent
  };
  // It got SIGTERM.
  struct Draining {
    bool begun = false;
    Time deadline = kNever;
    Time leave_by = kNever;  // whatever it holds in memory
    bool dismissed = false;
  };

  void Handle(Time now, const Welcome& message);
  void Handle(Time now, const Refused& message);
  void Handle(Time now, const Ping& message);
  void Handle(Time now, const Start& message);
  void Handle(Time now, const Stop& message);
  void Handle(Time now, const CommitReply& message);
  void Handle(Time now, const Verdict& message);
  void Handle(Time now, const Fetch& message);
  void Handle(Time now, const FetchCode& message);
  void Handle(Time now, const Keep& message);
  void Handle(Time now, const Persist& message);
  void Handle(Time now, const Dismiss& message);
  void Handle(Time now, const Measure& message);
  void Handle(Time now, const Run& message);
  void Handle(Time now, const Ran& message);
  void Handle(Time now, const Fence& message);
  void Handle(Time now, const TryPorts& message);
  void Handle(Time now, const StartAgain& message);
  void Handle(Time now, const Look& message);

  void Begin(Time now);
  MemberActions Take();
  void CheckLease(Time now);
  void CheckHangs(Time now);
  bool IsAlone(const Failure& death) const;
  // All ranks on this machine that decide the job's success have exited with 0.
  bool Decided() const;
  // The agent got SIGTERM, and no rank keeps it alive.
  bool Stays() const;
  void CheckDrain(Time now);
  void CheckAbsence(Time now);
  void CheckSilence(Time now);
  void AcceptGrant(const LeaseGrant& grant);
  Time EndOf(const LeaseGrant& grant) const;
  // False, and closes the connection, if the member must not obey that coordinator.
  bool Obey(Time now, uint32_t machine0_attempt);
  void MarkLeaseExpired(Time at);
  // `keep`: ranks that can take part in the next generation stay alive.
  void StopRanks(Time now, Time kill_at, bool keep = false, bool sure = false);
  void ReportOpenMetrics(Time now);
  void EndStop(Time kill_at);
  // `rank` is no longer spared; the others still are.
  void SpareNoMore(uint32_t rank);
  void EndKeeping(Time now);
  void CheckStopped(Time now);
  void EndEvidence(Time now);
  void SendHello(Time now);
  void SendReport();
  void SendProgress();
  void Send(Message message);
  void RefuseCommits(const std::string& reason);
  MemberActions AskToCommit(Time now, uint64_t id, CommitRequest request);
  void SendMemory();
  void SendCode();
  bool LacksCode(const std::string& digest) const;
  void SendFence();
  void DropLaterThanStart();
  template <typename Unwanted>
  void Drop(Unwanted unwanted);
  void Leave(int code, std::optional<Verdict> verdict, std::string reason);
  bool LeaseLive(Time now) const { return now < lease_.end; }

  MemberConfig config_;
  uint32_t machine0_attempt_;
  Counters counters_;
  bool connected_ = false;
  bool welcomed_ = false;

  Report report_;
  Start start_;                  // of report_.generation
  bool report_unsaid_ = false;   // it changed between HELLO and WELCOME
  Generation refused_;           // its START came while ranks of the one before were alive
  std::set<uint32_t> finished_;  // ranks of this generation that exited 0, unasked
  // Of this generation, what machine 0 asked for; empty while it runs.
  std::map<uint64_t, std::optional<Ran>> runs_;
  std::vector<MemoryPart> parts_;           // that this machine holds
  std::vector<MemoryPart> asked_to_fetch_;  // from the object store since the last START
  HeldCode code_;

  GrantedLease lease_;
  Stopping stopping_;
  Rejoining rejoin_;
  Heard heard_;
  Stood standstill_;
  AskedCommits commits_;
  Fences fence_;
  RanksProgress progress_;
  MetricWatch metrics_;
  Draining drain_;
  std::vector<MemberAction> actions_;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_MEMBER_MEMBER_H_
