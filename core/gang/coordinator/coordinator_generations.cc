// How generations begin and end: obstacles, announcement, stop, root cause, verdict, commits.
#include <algorithm>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "core/exit_codes.h"
#include "core/failure/peer_loss.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {

namespace {

constexpr Duration kVerdictPatience = seconds(5);
constexpr Duration kSlowPreparation = seconds(5);
constexpr Duration kEvidencePatience = seconds(5);
// The rank that was granted a commit moves it to its final name; SIGTERM must not come first.
constexpr Duration kCommitSettle = seconds(1);
constexpr size_t kMostStragglersReplaced = 2;

bool Requested(StopReason reason) {
  return reason != StopReason::kFailure && reason != StopReason::kMachineLost &&
         reason != StopReason::kLeaseExpired;
}

// The agents stay, with what they hold in memory, and the next generation follows.
bool GoesOnHere(StopReason reason) { return reason == StopReason::kRestarted; }

std::string StopWords(StopReason reason, const std::string& words) {
  if (reason != StopReason::kRestarted) {
    return std::string("stopped on request: ") + (words.empty() ? ToString(reason) : words);
  }
  return "restarted on request" + (words.empty() ? "" : " of " + words);
}

}  // namespace

// ---- beginning ----

CoordinatorPhase Coordinator::Obstacle(Time now) const {
  if (orders_.stop || !orders_.code.broken.empty()) {
    // Held says that nothing runs on whoever is here. Ranks of an earlier coordinator are told to
    // stop when their agent says HELLO.
    return roster_.NoRanksHere() ? CoordinatorPhase::kHeld : CoordinatorPhase::kFencing;
  }
  if (orders_.members.empty()) return CoordinatorPhase::kGathering;
  for (const Slot& slot : roster_.gang()) {
    if (!slot.present() || !lease_.of(slot.machine).has_echo) return CoordinatorPhase::kGathering;
  }
  for (const Slot& slot : roster_) {
    if (roster_.TakesPart(slot)) continue;
    if (!IsOut(now, slot) && Holds(Rule::kLeftOutAreOut)) return CoordinatorPhase::kFencing;
  }
  for (const Slot& slot : roster_.gang()) {
    bool ours = slot.report.generation.attempt == config_.attempt;
    Rule rule = ours ? Rule::kWaitForStopped : Rule::kWaitForOldCoordinator;
    // Processes that an earlier coordinator's stop kept cannot continue under this one.
    const bool kept = slot.keeps_ranks() && !ours;
    if ((MayHaveLiveRanks(slot.report.phase) || kept) && Holds(rule)) {
      return CoordinatorPhase::kFencing;
    }
    if (now < slot.predecessor_out && Holds(Rule::kWaitForPredecessor)) {
      return CoordinatorPhase::kFencing;
    }
  }
  if (now < roster_.OldCoordinatorsOut(orders_.witnesses) && Holds(Rule::kWaitForOldCoordinator)) {
    return CoordinatorPhase::kFencing;
  }
  if (now < setbacks_.backoff_until) return CoordinatorPhase::kBackoff;
  if (config_.memory) {
    for (const Slot& slot : roster_) {
      if (!slot.memory) return CoordinatorPhase::kGathering;
    }
  }
  if (!lease_.MayBegin(now) && Holds(Rule::kLeaseGuardsAnnouncement)) {
    return CoordinatorPhase::kGathering;
  }
  return CoordinatorPhase::kPreparing;
}

// Its ranks are dead, as it or an observer of its end reports. Or their lease has run out; a
// machine that is left out gets no longer lease.
bool Coordinator::IsOut(Time now, const Slot& slot) const {
  if (now < slot.predecessor_out) return false;
  if (!MayHaveLiveRanks(slot.report.phase)) return true;
  return now >= lease_.SilentSince(slot.machine) + lease_.LossLength(now);
}

// A gang does not stop for machines that are not here.
bool Coordinator::MayResize() const {
  return orders_.members != roster_.members() &&
         std::ranges::all_of(orders_.members, [this](uint32_t machine) {
           return roster_[machine].present() && lease_.of(machine).has_echo;
         });
}

void Coordinator::AdoptMembers() {
  const bool between = phase_ == CoordinatorPhase::kGathering ||
                       phase_ == CoordinatorPhase::kFencing ||
                       phase_ == CoordinatorPhase::kBackoff || phase_ == CoordinatorPhase::kHeld ||
                       phase_ == CoordinatorPhase::kPreparing;
  if (!between || orders_.members.empty() || orders_.members == roster_.members()) return;
  if (phase_ == CoordinatorPhase::kPreparing) Wait();
  Log("generations now have machines " + orders_.members.ToString());
  roster_.SetMembers(orders_.members);
  lease_.Count(orders_.members);
  outbox_.Change();
}

void Coordinator::TryStart(Time now) {
  bool waiting = phase_ == CoordinatorPhase::kGathering || phase_ == CoordinatorPhase::kFencing ||
                 phase_ == CoordinatorPhase::kBackoff || phase_ == CoordinatorPhase::kHeld;
  if (!waiting) return;
  CoordinatorPhase obstacle = Obstacle(now);
  if (obstacle == CoordinatorPhase::kPreparing && !PassedPreflight(now)) {
    if (phase_ == CoordinatorPhase::kVerdict) return;
    obstacle = CoordinatorPhase::kGathering;
  } else if (preflight_ && obstacle != CoordinatorPhase::kPreparing) {
    preflight_->OnHindered(now);
  }
  // Whoever hears that it is held may take the machines away.
  if (obstacle == CoordinatorPhase::kHeld && phase_ != obstacle &&
      folder_.WriteLast(now, generation_))
    return;
  if (obstacle != phase_) outbox_.Change();
  phase_ = obstacle;
  if (phase_ != CoordinatorPhase::kPreparing) return;
  ++generation_.n;
  folder_.Drop();
  preparation_.slow_at = now + kSlowPreparation;
  preparation_.slow = false;
  outbox_.Add(PrepareGeneration{generation_});
}

// A file server that stands still is the only thing that can hold this up; the start waits for it
// without an end, but not without a word.
void Coordinator::CheckPreparation(Time now) {
  if (phase_ != CoordinatorPhase::kPreparing || now < preparation_.slow_at) return;
  preparation_.slow_at = kNever;
  preparation_.slow = true;
  outbox_.Change();
  Log(Reason());
}

void Coordinator::CouldNotPrepare(Time now, const std::string& why) {
  setbacks_.decision = "generation " + generation_.ToString() + " could not be prepared: " + why;
  Log(setbacks_.decision);
  setbacks_.backoff = BackoffAfter(++setbacks_.unprepared);
  setbacks_.backoff_until = now + setbacks_.backoff;
  Wait();
}

void Coordinator::CheckPrepared(Time now) {
  if (phase_ != CoordinatorPhase::kPreparing || !preparation_.prepared) return;
  if (Obstacle(now) != CoordinatorPhase::kPreparing) return Wait();
  // Who took another's place meanwhile.
  const bool measured = !preflight_ || preflight_->Knows(Attempts());
  if (!measured && Holds(Rule::kMeasuredBeforeStart)) return Wait();
  if (!ports_.Have(generation_)) return;
  const std::optional<CheckpointId> memory = MemoryToBeginFrom();
  if (memory) return Announce(now, *std::exchange(preparation_.prepared, std::nullopt), *memory);
  const std::string problem = copies_.TakeProblem();
  if (!problem.empty()) CouldNotPrepare(now, problem);
}

std::optional<CheckpointId> Coordinator::MemoryToBeginFrom() {
  if (!config_.memory) return CheckpointId{};
  MemoryPart stored;
  if (config_.object_store) {
    stored.id = preparation_.prepared->commit;
    stored.name = CheckpointNameOf(preparation_.prepared->resume);
  }
  const std::optional<CheckpointId> memory = copies_.Prepare(folder_.in_folder(), stored);
  if (!memory) return std::nullopt;
  const std::string lost = copies_.LostSince(std::max(*memory, folder_.in_folder()));
  if (lost.empty()) return memory;
  setbacks_.decision = lost + "; resuming from " +
                       (memory->exists()                        ? "an older one in memory"
                        : preparation_.prepared->resume.empty() ? "the beginning"
                                                                : preparation_.prepared->resume);
  Log(setbacks_.decision);
  return memory;
}

void Coordinator::Announce(Time now, const Prepared& prepared, CheckpointId memory) {
  if (Holds(Rule::kLeaseGuardsAnnouncement) && !lease_.Live(now)) return Wait();
  // One that waited for this generation has died meanwhile, and what it left is being killed.
  const bool stops = std::ranges::any_of(
      roster_, [](const Slot& slot) { return slot.report.phase == MemberPhase::kStopping; });
  if (stops && Holds(Rule::kWaitForStopped)) return Wait();
  phase_ = CoordinatorPhase::kStarting;
  if (setbacks_.unprepared > 0) setbacks_.decision.clear();
  setbacks_.unprepared = 0;
  commits_.Begin();
  alone_.Begin(generation_);
  launcher_.Begin();
  fences_.Begin(generation_);
  copies_.Begin();
  folder_.Begin(now, memory);
  progress_.clear();
  stragglers_.finder.Begin(roster_.members());
  hangs_.finder.Begin(roster_.members());
  hangs_.step_due = kNever;
  hangs_.hung.reset();
  for (Slot& slot : roster_) {
    slot.straggles = false;
    slot.fetching.reset();
  }
  GenerationRecord record;
  record.generation = generation_;
  record.announced = now;
  if (orders_.code.wanted) record.code = orders_.code.wanted->digest;
  if (config_.elastic) record.members = roster_.members();
  record.resume = memory.exists() ? "memory:" + memory.generation.ToString() + "/" +
                                        std::to_string(memory.number)
                                  : prepared.resume;
  if (history_.size() == kMaxHistory) history_.erase(history_.begin());
  history_.push_back(std::move(record));
  Start start;
  start.generation = generation_;
  start.master_address = prepared.master_address;
  start.master_port = prepared.port;
  start.resume = prepared.resume;
  start.restarts = counters_.generations++;
  start.hang_timeout = config_.hang_timeout;
  start.counters = counters_;
  start.memory = memory;
  start.ports = ports_.found();
  start.members = roster_.members();
  ports_.Forget();
  for (const Slot& slot : roster_.gang()) {
    start.lease = lease_.Grant(lease_.Stamp(now), slot.machine);
    Send(slot, start);
  }
}

void Coordinator::CheckSpawned(Time now) {
  if (phase_ != CoordinatorPhase::kStarting) return;
  for (const Slot& slot : roster_.gang()) {
    bool up =
        slot.report.generation == generation_ &&
        (slot.report.phase == MemberPhase::kRunning || slot.report.phase == MemberPhase::kFinished);
    if (!up) return;
  }
  phase_ = CoordinatorPhase::kRunning;
  Record().spawned = now;
  Record().warm =
      std::ranges::all_of(roster_.gang(), [](const Slot& slot) { return slot.report.warm; });
  for (const Slot& slot : roster_.gang()) {
    Record().kept += static_cast<uint32_t>(slot.report.kept.size());
    Record().saved = std::max(Record().saved, slot.report.parked.saved);
  }
  if (Record().kept > 0) {
    Log("generation " + generation_.ToString() + " goes on with " + std::to_string(Record().kept) +
        " of " + std::to_string(config_.machines * config_.processes) +
        " processes of the one before");
  }
  outbox_.Change();
}

// ---- while it runs ----

void Coordinator::Apply(Time now, Slot& slot, const Report& report) {
  if (report.generation != generation_) return;
  if (report.unkillable && !slot.replace) {
    slot.replace = true;
    slot.lost_in = generation_;
    slot.lost_at.reset();
  }
  if (!history_.empty() && Record().generation == generation_ && report.first_step &&
      !Record().first_step) {
    Record().first_step = now;
    orders_.code.ran =
        orders_.code.ran || (orders_.code.wanted && Record().code == orders_.code.wanted->digest);
  }
  if (!Live()) return;
  for (const Failure& death :
       std::span(report.down).first(std::min(report.down.size(), kMaxDownInReport))) {
    LearnAlone(now, slot, death);
  }
  if (!Live()) return;
  const auto by_itself = std::ranges::count_if(report.deaths, &Failure::by_itself);
  const auto hangs = std::ranges::count_if(report.deaths, [](const Failure& death) {
    return death.by_itself && death.cause == Cause::kHang;
  });
  const bool lost_peers = std::ranges::all_of(report.deaths, [](const Failure& death) {
    return !death.by_itself || LossOf(death) != PeerLoss::kNone;
  });
  if (by_itself > 0 && lost_peers && roster_.members().size() * config_.processes > 1) {
    if (stopping_.settled_at == kNever) stopping_.settled_at = now + kSettle;
  } else if (by_itself > 0) {
    BeginStop(now, StopReason::kFailure, config_.policy.restart_grace_period,
              hangs == by_itself ? kEvidencePatience : Duration::zero());
  } else if (report.lease_expired) {
    BeginStop(now, StopReason::kLeaseExpired, Duration::zero());
  } else if (report.phase == MemberPhase::kStopping || report.phase == MemberPhase::kStopped) {
    BeginStop(now, slot.draining ? StopReason::kDraining : StopReason::kMachineLost,
              config_.policy.restart_grace_period);
  }
}

void Coordinator::CheckCopies() {
  if (config_.memory && Live() && copies_.Step()) ReplaceStraggler();
}

void Coordinator::LearnAlone(Time now, const Slot& slot, Failure death) {
  if (!Live()) return;
  const Time began = Record().spawned.value_or(*Record().announced);
  Obey(now, alone_.OnDeath(now, slot, std::move(death), began));
}

void Coordinator::CheckAlone(Time now) {
  if (!Live()) return;
  // Else a process has ended that lost a peer; the gang will, too.
  if (stopping_.settled_at == kNever) {
    if (alone_.AskWhetherAlive(now, [&] { return lease_.Stamp(now); })) PingAll(now);
    Obey(now, alone_.ChargeSettled(now, [this](Time stamp) { return AllAnsweredSince(stamp); }));
  }
  if (Live()) alone_.StartDue(now);
}

void Coordinator::Obey(Time now, AloneRanks::Answer answer) {
  if (std::optional<Failure> failure = alone_.TakeFailure()) setbacks_.last = *std::move(failure);
  if (answer == AloneRanks::Answer::kRunOn) return;
  BeginStop(now, StopReason::kFailure, config_.policy.restart_grace_period);
}

bool Coordinator::Finished(const Slot& slot) const {
  return slot.report.generation == generation_ && slot.report.finished;
}

bool Coordinator::AllFinished() const {
  return std::ranges::all_of(roster_.gang(), [this](const Slot& slot) { return Finished(slot); });
}

// If a machine never ran, the gang has done nothing, even if the deciding ranks exited with 0.
bool Coordinator::Decided() const {
  if (history_.empty() || !history_.back().spawned) return false;
  if (config_.deciders.empty()) return AllFinished();
  return std::ranges::all_of(config_.deciders, [this](uint32_t rank) {
    const Report& report = roster_[rank / config_.processes].report;
    return report.generation == generation_ && report.decided;
  });
}

void Coordinator::CheckFinished(Time now) {
  if (phase_ != CoordinatorPhase::kRunning || !Decided()) return;
  if (AllFinished()) return Succeed(now);
  alone_.ChargeAll();  // while somebody can still hear of it
  BeginStop(now, StopReason::kFinished, config_.grace);
}

void Coordinator::Succeed(Time now) {
  if (Holds(Rule::kLeaseGuardsAnnouncement) && !lease_.Live(now)) return;
  if (folder_.WriteLast(now, generation_)) return;
  alone_.ChargeAll();  // they followed from no other's
  Record().ended = now;
  if (const std::string smaller = launcher_.SmallerWorld(); !smaller.empty()) {
    return FailAsSmaller(now, smaller);
  }
  Verdict success;
  success.generation = generation_;
  success.failure = setbacks_.last;  // who looks seldom may not have heard of it
  success.reason = config_.launcher() ? "the launcher on machine 0 exited with code 0"
                   : AllFinished()    ? "every process of every machine exited with code 0"
                                      : "all processes that decide exited 0 (successPolicy); the "
                                        "others were stopped";
  Record().stop_reason.reset();
  Record().stop_sent.reset();
  if (!unwritten().empty()) success.reason += "; " + unwritten();
  if (!ending_.doubt.empty()) success.reason += "; " + ending_.doubt;
  DeliverVerdict(now, std::move(success));
}

void Coordinator::CheckCommits(Time now) {
  if (commits_.empty()) return;
  if (!Live() && phase_ != CoordinatorPhase::kStopping) {
    return commits_.RefuseAll("the generation has ended");
  }
  if (Holds(Rule::kCommitNeedsLease) && !lease_.Live(now)) {
    return commits_.RefuseAll("the lease has run out");
  }
  std::optional<MemoryPart> in_memory = commits_.GrantInMemory(generation_);
  const bool on_disk = commits_.GrantOnDisk([this](Time stamp) {
    return AllAnsweredSince(stamp) || !Holds(Rule::kCommitNeedsFreshAnswers);
  });
  if (!in_memory && !on_disk) return;
  if (in_memory) folder_.OnGranted(now, *std::move(in_memory));
  if (on_disk) ReplaceStraggler();
  if (orders_.restart.asked && orders_.restart.at == kNever)
    orders_.restart.at = now + kCommitSettle;
  if (MayResize()) BeginStop(now, StopReason::kScaled, config_.grace);
}

// The operator does it, out of maxMachineReplacements, which a slowness that another node does not
// cure must not spend: each machine once, two in all, and never the one that leads the gang. What
// comes after begins with no evidence.
void Coordinator::ReplaceStraggler() {
  const std::optional<Straggler>& straggler = stragglers_.finder.found();
  if (!straggler || config_.policy.stragglers != Stragglers::kReplace) return;
  if (straggler->machine == 0 || stragglers_.replaced.size() == kMostStragglersReplaced) return;
  if (!stragglers_.replaced.insert(straggler->machine).second) return;
  roster_[straggler->machine].straggles = true;
  outbox_.Change();
  Log("machine " + std::to_string(straggler->machine) +
      " is to be replaced: the others wait for it, and there is a new checkpoint");
}

void Coordinator::CheckReset(Time now) {
  if (phase_ != CoordinatorPhase::kRunning || !Record().spawned) return;
  if (now - std::max(*Record().spawned, alone_.last_death()) < config_.policy.reset_after) return;
  setbacks_.short_lives = 0;
  if (counters_.application_used() == 0) return;
  counters_.process_failures_base = counters_.process_failures;
  counters_.out_of_memory_base = counters_.out_of_memory;
  outbox_.Change();
}

// ---- ending ----

void Coordinator::BeginStop(Time now, StopReason reason, Duration grace, Duration evidence) {
  if (!Live()) return;
  phase_ = CoordinatorPhase::kStopping;
  stopping_.settled_at = kNever;
  stopping_.reason = reason;
  stopping_.words.clear();
  // A process that hangs, or was out of reach, may not know what it holds; and in a gang that
  // changes, its rank may be another's in the next generation.
  stopping_.keep =
      reason == StopReason::kFailure && evidence <= Duration::zero() && !config_.elastic;
  stopping_.kill_at = now + grace;
  Record().stop_sent = now;
  Record().stop_reason = reason;
  outbox_.Change();
  if (grace <= Duration::zero()) commits_.RefuseAll("the generation is stopping");
  for (const Slot& slot : roster_.gang())
    Send(slot, Stop{generation_, reason, grace, evidence, stopping_.keep});
}

void Coordinator::StopKept(const Slot& slot) {
  if (!slot.keeps_ranks() || !Holds(Rule::kHeldKeepsNone)) return;
  Send(slot, Stop{slot.report.generation, StopReason::kSuspended, Duration::zero()});
}

// What ranks do decides over them only where the job asks for it, and only if none works.
void Coordinator::CheckHangs(Time now) {
  if (phase_ != CoordinatorPhase::kRunning) return;
  if (now >= hangs_.step_due) {
    hangs_.step_due = kNever;
    const bool shown = hangs_.finder.found().has_value();
    hangs_.finder.OnStep(now, StepOf(progress_, config_.output_counts));
    if (shown != hangs_.finder.found().has_value()) outbox_.Change();
  }
  switch (hangs_.finder.Judge(now, config_.hang_timeout)) {
    case HangFinder::News::kNone:
      break;
    case HangFinder::News::kSuspected:
      for (const Slot& slot : roster_.gang()) Send(slot, Look{generation_, kEvidencePatience});
      break;
    case HangFinder::News::kLookedAt:
      outbox_.Change();
      break;
  }
  if (!config_.restart_hangs) return;
  hangs_.hung = hangs_.finder.RestartDue(now);
  if (!hangs_.hung) return;
  Log("no rank works, and the gang makes no progress: it is restarted (health.hangAction)");
  BeginStop(now, StopReason::kFailure, config_.policy.restart_grace_period, kEvidencePatience);
}

void Coordinator::CheckSettled(Time now) {
  if (now < stopping_.settled_at) return;
  stopping_.settled_at = kNever;
  BeginStop(now, StopReason::kFailure, config_.policy.restart_grace_period);
}

void Coordinator::CheckStopped(Time now) {
  if (phase_ != CoordinatorPhase::kStopping) return;
  if (!ending_.failing) {
    for (const Slot& slot : roster_.gang()) {
      bool lost = slot.lost_in == generation_;
      if (!slot.has_stopped(generation_) && !lost && Holds(Rule::kWaitForStopped)) return;
    }
    // Whatever the stop was begun for: other machines' ranks may fail because these have ended.
    const bool may_succeed =
        !config_.deciders.empty() || stopping_.reason == StopReason::kRestarted;
    if (may_succeed && Decided()) return Succeed(now);
    if (Requested(stopping_.reason) && !GoesOnHere(stopping_.reason) &&
        folder_.WriteLast(now, generation_))
      return;
    Conclude(now);
  }
  if (!ending_.failing || folder_.WriteLast(now, generation_)) return;
  if (!unwritten().empty()) ending_.failing->reason += "; " + unwritten();
  DeliverVerdict(now, *std::exchange(ending_.failing, std::nullopt));
}

// An agent that got SIGTERM, and holds checkpoints in memory, stays until the newest one is written
// or it can't wait any longer.
void Coordinator::CheckLeaving(Time now) {
  // A generation's end comes first; what is written while its successor's file is made is too late.
  if (Live() || phase_ == CoordinatorPhase::kStopping || phase_ == CoordinatorPhase::kPreparing ||
      phase_ == CoordinatorPhase::kVerdict) {
    return;
  }
  const bool some_leave = std::ranges::any_of(roster_, [](const Slot& slot) {
    return slot.within_reach() && slot.draining && !slot.dismissed;
  });
  if (!some_leave || folder_.WriteLast(now, generation_)) return;
  for (Slot& slot : roster_) {
    if (!slot.within_reach() || !slot.draining || slot.dismissed) continue;
    slot.dismissed = true;
    Send(slot, Dismiss{generation_});
  }
}

void Coordinator::Conclude(Time now) {
  GenerationRecord& record = Record();
  record.all_stopped = now;
  record.ended = now;
  commits_.RefuseAll("the generation has ended");
  alone_.DropUncharged();
  Wait();
  if (Requested(stopping_.reason)) {
    ++counters_.stops;
    record.failure.cause = Cause::kStopRequested;
    record.failure.message = StopWords(stopping_.reason, stopping_.words);
    FinishRestart();
    return;
  }
  std::vector<MachineFate> fates;
  for (const Slot& slot : roster_.gang()) {
    const LeaseClock::Pulse& pulse = lease_.of(slot.machine);
    bool reported = slot.report.generation == generation_;
    MachineFate fate;
    fate.machine = slot.machine;
    fate.lost = slot.lost_in == generation_ && !slot.replace;
    fate.lost_cause = slot.lost_cause;
    fate.lost_how = slot.lost_how;
    fate.unkillable = reported && slot.report.unkillable;
    fate.lease_expired = reported && slot.report.lease_expired;
    fate.lease_expired_at = slot.report.lease_expired_at;
    fate.clock_offset = pulse.clock_offset;
    fate.clock_uncertainty = pulse.has_echo ? pulse.clock_uncertainty : Duration::zero();
    if (reported) {
      fate.deaths = slot.report.deaths;
      std::ranges::copy_if(slot.report.down, std::back_inserter(fate.deaths),
                           [this](const Failure& death) {
                             return alone_.escalated(static_cast<uint32_t>(death.rank));
                           });
      fate.whereabouts = slot.report.whereabouts;
    }
    fates.push_back(std::move(fate));
  }
  if (stopping_.reason == StopReason::kLeaseExpired && !fates[0].lease_expired) {
    fates[0].lease_expired = true;
    fates[0].lease_expired_at = *record.stop_sent + fates[0].clock_offset;
  }
  if (hangs_.hung) {
    // Of no rank more than of another, until it is known where they are.
    Failure hang;
    hang.rank = 0;
    hang.cause = Cause::kHang;
    hang.at = *record.stop_sent + fates[0].clock_offset;
    hang.by_itself = true;
    hang.stderr_tail = std::to_string(*hangs_.hung / minutes(1)) + " min, in which no rank worked";
    fates[0].deaths.push_back(std::move(hang));
  }
  Failure root = FindRootCause(std::move(fates), config_.names);
  if (root.cause == Cause::kHang) root.stderr_tail.clear();
  ApplyFailurePolicy(now, root);
}

// Applies the failure policy to the root cause.
void Coordinator::ApplyFailurePolicy(Time now, const Failure& root) {
  GenerationRecord& record = Record();
  // A death that its agent noticed late was before the STOP all the same.
  if (root.at != kNever) record.halted = record.died = std::min(root.at, *record.stop_sent);
  if (root.cause == Cause::kHang && record.died) {
    *record.halted -= hangs_.hung.value_or(config_.hang_timeout);
  }
  if (!record.died && root.machine >= 0) {
    const Slot& slot = roster_[static_cast<size_t>(root.machine)];
    if (slot.lost_in == generation_) record.halted = slot.lost_at;
  }
  setbacks_.last = root;
  Cause cause = root.cause;
  // The end of a whole container: the operator counted it before it reported it.
  bool counted = cause == Cause::kOutOfMemory && root.rank < 0;
  bool application = ClassOf(cause) == CauseClass::kApplication;

  FailureContext context;
  context.failure = root;
  context.application_failures_used = counters_.application_used() - (counted ? 1 : 0);
  context.machine_failures_used = counters_.infrastructure_used();
  bool spawned = record.spawned && *record.spawned < *record.stop_sent;
  context.lived = spawned ? *record.stop_sent - *record.spawned : Duration::zero();
  // A step that was read from a program's output is not in its member's report.
  context.first_step_seen =
      record.first_step.has_value() ||
      std::ranges::any_of(progress_, [](const auto& each) { return each.second.step > 0; });
  context.reports =
      !progress_.empty() || std::ranges::any_of(history_, [](const GenerationRecord& each) {
        return each.first_step.has_value();
      });
  context.lives_on =
      std::ranges::any_of(roster_.gang(), [](const Slot& slot) { return slot.keeps_ranks(); });
  context.short_lives = setbacks_.short_lives;
  context.previous = setbacks_.previous;
  // A program that reports no steps has started after kShortLife. One that reports may take longer
  // until its first step.
  const bool may_be_starting = context.reports || context.lived < kShortLife;
  if (may_be_starting && IsBrokenEdit(root)) return HoldForEdit(root);
  FailureDecision decision = DecideFailure(config_.policy, context);
  // The budget's end is no cause; a crash that repeats itself is.
  if (decision.cause == Cause::kEarlyCrash) setbacks_.last.cause = decision.cause;
  record.failure = setbacks_.last;

  if (application && !counted) ++counters_.process_failures;
  if (cause == Cause::kLeaseExpired) ++counters_.leases_expired;
  setbacks_.short_lives = IsShortLife(context) ? setbacks_.short_lives + 1 : 0;
  setbacks_.previous.reset();
  if (!context.first_step_seen) setbacks_.previous = root;
  setbacks_.decision = decision.reason;
  Log("generation " + record.generation.ToString() + " ended: " + root.message + "; " +
      decision.reason);

  switch (decision.action) {
    case FailureAction::kFail: {
      Verdict failed;
      failed.generation = generation_;
      failed.exit_code = static_cast<uint32_t>(decision.exit_code);
      failed.failure = setbacks_.last;
      failed.reason = decision.reason;
      ending_.failing = std::move(failed);
      phase_ = CoordinatorPhase::kStopping;
      return;
    }
    case FailureAction::kReplaceMachine:
      if (root.machine >= 0) roster_[static_cast<size_t>(root.machine)].replace = true;
      break;
    case FailureAction::kRestart:
      break;
  }
  setbacks_.backoff = orders_.restart.asked ? Duration::zero() : decision.backoff;
  setbacks_.backoff_until = now + setbacks_.backoff;
  FinishRestart();
}

// ---- restarts on request, and edited code ----

void Coordinator::TakeRestart(Time now, const std::optional<DesiredState::Restart>& restart) {
  const bool mine =
      restart && restart->attempt == config_.attempt && restart->id != orders_.restart.done;
  if (!mine || ending_.verdict || ending_.failing) {
    orders_.restart.asked.reset();
    orders_.restart.at = kNever;
    return;
  }
  orders_.restart.asked = restart;
  if (Live() && !restart->at_commit) BeginRestart(now);
  // Otherwise the generation that ends now, or has ended, is followed by one that is younger.
  if (Live() || phase_ == CoordinatorPhase::kStopping) return;
  setbacks_.backoff_until = std::min(setbacks_.backoff_until, now);
  orders_.code.broken.clear();
  FinishRestart();
}

void Coordinator::BeginRestart(Time now) {
  if (!Live()) return;
  BeginStop(now, StopReason::kRestarted, config_.grace);
  stopping_.words = orders_.restart.asked->words;
}

void Coordinator::CheckRestart(Time now) {
  if (orders_.restart.asked && now >= orders_.restart.at) BeginRestart(now);
}

void Coordinator::FinishRestart() {
  orders_.restart.at = kNever;
  if (!orders_.restart.asked) return;
  orders_.restart.done = orders_.restart.asked->id;
  orders_.restart.asked.reset();
  outbox_.Change();
}

void Coordinator::TakeCode(Time now, const std::optional<DesiredState::Code>& code) {
  const bool other = code.has_value() != orders_.code.wanted.has_value() ||
                     (code && code->digest != orders_.code.wanted->digest);
  // What runs was begun before the first word, with the same code.
  if (code && !orders_.code.wanted && Live() && Record().code.empty()) Record().code = code->digest;
  orders_.code.wanted = code;
  if (other) orders_.code.ran = false;
  if (orders_.code.broken.empty() ||
      (!other && orders_.code.wanted && orders_.code.wanted->watched))
    return;
  orders_.code.broken.clear();
  setbacks_.backoff_until = now;
}

bool Coordinator::IsBrokenEdit(const Failure& root) const {
  return orders_.code.wanted && orders_.code.wanted->watched && !orders_.code.ran &&
         ClassOf(root.cause) == CauseClass::kApplication &&
         history_.back().code == orders_.code.wanted->digest;
}

void Coordinator::HoldForEdit(const Failure& root) {
  GenerationRecord& record = Record();
  record.failure = setbacks_.last = root;
  orders_.code.broken = root.message;
  setbacks_.decision = "the edited code failed before its first step";
  ++counters_.stops;
  for (const Slot& slot : roster_) StopKept(slot);  // they have the old code
  Log("generation " + record.generation.ToString() + " ended: " + root.message +
      "; the gang waits for the next edit");
  FinishRestart();
}

void Coordinator::DeliverVerdict(Time now, Verdict verdict) {
  phase_ = CoordinatorPhase::kVerdict;
  ending_.deadline = now + kVerdictPatience;
  ending_.verdict = std::move(verdict);
  ending_.verdict->ended = LastEnded(history_, -born_);
  outbox_.Change();
  for (const Slot& slot : roster_) Send(slot, *ending_.verdict);
}

void Coordinator::LeaveTo(uint32_t later, const std::string& how) {
  phase_ = CoordinatorPhase::kDone;
  const uint32_t most = std::numeric_limits<uint32_t>::max();
  outbox_.Add(ExitCoordinator{kExitReplace,
                              "fenced: attempt " + std::to_string(later) + " of machine 0 " + how,
                              later == most ? most : later + 1});
}

// No rule of the user's is asked: nothing has run, and nothing that runs again would end otherwise.
void Coordinator::FailAsMisconfigured(Time now, int machine, const std::string& what) {
  setbacks_.last = {};
  setbacks_.last.cause = Cause::kConfiguration;
  setbacks_.last.machine = machine;
  setbacks_.last.message = what;
  FailureContext context;
  context.failure = setbacks_.last;
  const FailureDecision decision = DecideFailure({}, context);
  setbacks_.decision = decision.reason;
  Log("the job ends: " + what);
  Verdict failed;
  failed.generation = generation_;
  failed.exit_code = static_cast<uint32_t>(decision.exit_code);
  failed.failure = setbacks_.last;
  failed.reason = decision.reason;
  folder_.SayWhatIsUnwritten();
  DeliverVerdict(now, std::move(failed));
}

void Coordinator::FailAsSmaller(Time now, const std::string& how) {
  // The verdict has the record.
  Failure& failure = Record().failure;
  failure.cause = Cause::kConfiguration;
  failure.machine = static_cast<int>(launcher_.NeverAsked().value_or(0));
  failure.message =
      "the launcher on machine 0 exited with 0, but " + how +
      ": its world was smaller than the job. Most often the command limits it (its own -np, "
      "--host, --hostfile or --map-by): remove these, or name as many processes as the job has";
  FailAsMisconfigured(now, failure.machine, failure.message);
}

void Coordinator::Wait() {
  preparation_.prepared.reset();
  ports_.Forget();
  phase_ = CoordinatorPhase::kGathering;
  outbox_.Change();
}

std::string Coordinator::Reason() const {
  if (const std::string writing = folder_.writing(); !writing.empty() && !Live()) {
    return "writing checkpoint " + writing + " from memory to " + config_.checkpoint_path;
  }
  switch (phase_) {
    case CoordinatorPhase::kGathering: {
      if (orders_.members.empty())
        return "waiting for the operator to name the machines that take part";
      const std::string missing = roster_.Missing();
      if (missing.empty() && preflight_ && preflight_->measuring()) {
        return "preflight: machines are measured before ranks run";
      }
      if (missing.empty()) return "waiting for heartbeats";
      return "waiting for machines " + missing + " of " + std::to_string(roster_.members().size()) +
             (unwritten().empty() ? "" : "; " + unwritten());
    }
    case CoordinatorPhase::kFencing:
      return "waiting until no rank of an earlier generation can be alive";
    case CoordinatorPhase::kBackoff:
      return "waiting " + std::to_string(setbacks_.backoff / seconds(1)) +
             " s before the next generation: " + setbacks_.decision;
    case CoordinatorPhase::kHeld:
      if (!orders_.stop) return "waiting for the next edit of the code";
      if (!orders_.stop->words.empty()) return StopWords(orders_.stop->reason, orders_.stop->words);
      return std::string("stopped on request: ") +
             (orders_.stop ? ToString(orders_.stop->reason) : "") +
             (unwritten().empty() ? "" : "; " + unwritten());
    case CoordinatorPhase::kVerdict:
    case CoordinatorPhase::kDone:
      return ending_.verdict ? ending_.verdict->reason : "fenced by a later machine 0";
    case CoordinatorPhase::kStopping:
      if (stopping_.reason == StopReason::kRestarted)
        return StopWords(stopping_.reason, stopping_.words);
      return std::string("stopping: ") + ToString(stopping_.reason);
    case CoordinatorPhase::kPreparing:
      if (!preparation_.slow) return setbacks_.decision;
      if (ports_.waits_for_machines())
        return "waiting until every machine has reported its free ports";
      if (preparation_.prepared)
        return "waiting until every machine has its part of a checkpoint in memory";
      return "waiting for the checkpoint folder " + config_.checkpoint_path +
             ": its file system has not answered for " +
             std::to_string(kSlowPreparation / seconds(1)) + " s";
    case CoordinatorPhase::kStarting:
    case CoordinatorPhase::kRunning:
      return setbacks_.decision;
  }
  return "";
}

}  // namespace lockstep::core
