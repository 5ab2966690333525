// How generations begin and run: obstacles, announcement, deaths, commits, hangs, stragglers.
#include <algorithm>
#include <span>
#include <utility>

#include "core/failure/peer_loss.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {

namespace {

constexpr Duration kEvidencePatience = seconds(5);
constexpr size_t kMostStragglersReplaced = 2;

}  // namespace

// ---- beginning ----

CoordinatorPhase Coordinator::Obstacle(Time now) const {
  if (orders_.stop || orders_.code.holds()) {
    // Held says that nothing runs on whoever is here. Ranks of an earlier coordinator are told to
    // stop when their agent says HELLO.
    return roster_.NoRanksHere() ? CoordinatorPhase::kHeld : CoordinatorPhase::kFencing;
  }
  if (orders_.members.empty()) return CoordinatorPhase::kGathering;
  if (!fence().Reaches(roster_.members())) return CoordinatorPhase::kGathering;
  if (fence().OldRanksMayLive(now, orders_.witnesses)) return CoordinatorPhase::kFencing;
  if (!codes_.Known()) return CoordinatorPhase::kGathering;
  if (codes_.Lost()) {
    return roster_.NoRanksHere() ? CoordinatorPhase::kHeld : CoordinatorPhase::kFencing;
  }
  if (!codes_.Everywhere() && Holds(Rule::kCodeBeforeStart)) return CoordinatorPhase::kGathering;
  if (KeptHaveOtherCode() && !roster_.NoneKept()) return CoordinatorPhase::kFencing;
  if (setbacks_.Waits(now)) return CoordinatorPhase::kBackoff;
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

// A gang does not stop for machines that are not here, or have yet to fetch the code.
bool Coordinator::MayResize() const {
  return orders_.members != roster_.members() && fence().Reaches(orders_.members) &&
         codes_.HeldBy(orders_.members);
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
  preparation_.slow_at = now + Preparation::kSlowAfter;
  preparation_.slow = false;
  outbox_.Add(PrepareGeneration{generation_, metrics_.request});
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
  setbacks_.OnUnprepared(now,
                         "generation " + generation_.ToString() + " could not be prepared: " + why);
  Log(setbacks_.decision());
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
  setbacks_.NoteDecision(lost + "; resuming from " +
                         (memory->exists()                        ? "an older one in memory"
                          : preparation_.prepared->resume.empty() ? "the beginning"
                                                                  : preparation_.prepared->resume));
  Log(setbacks_.decision());
  return memory;
}

void Coordinator::Announce(Time now, const Prepared& prepared, CheckpointId memory) {
  if (Holds(Rule::kLeaseGuardsAnnouncement) && !lease_.Live(now)) return Wait();
  // One that waited for this generation has died meanwhile, and what it left is being killed.
  const bool stops = std::ranges::any_of(
      roster_, [](const Slot& slot) { return slot.report.phase == MemberPhase::kStopping; });
  if (stops && Holds(Rule::kWaitForStopped)) return Wait();
  phase_ = CoordinatorPhase::kStarting;
  setbacks_.OnAnnounced();
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
  metrics_.rules = MetricRules(config_.policy);
  metrics_.noted.reset();
  for (Slot& slot : roster_) {
    slot.straggles = false;
    slot.fetching.reset();
  }
  GenerationRecord record;
  record.generation = generation_;
  record.announced = now;
  record.code = codes_.synced() ? codes_.wanted() : orders_.code.digest();
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
  start.code = codes_.wanted();
  start.rules = metrics_.rules;
  start.skip_steps = prepared.skip_steps;
  codes_.OnAnnounced();
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

// ---- running ----

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
    orders_.code.OnFirstStep(Record().code);
  }
  if (!Live()) return;
  for (const Failure& death :
       std::span(report.down).first(std::min(report.down.size(), kMaxDownInReport))) {
    LearnAlone(now, slot, death);
  }
  if (!Live()) return;
  NoteMetric(slot, report);
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
  if (std::optional<Failure> failure = alone_.TakeFailure()) {
    setbacks_.NoteFailure(*std::move(failure));
  }
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
  success.failure = setbacks_.last();  // who looks seldom may not have heard of it
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
  outbox_.Change();
  if (in_memory) folder_.OnGranted(now, *std::move(in_memory));
  if (on_disk) ReplaceStraggler();
  orders_.restart.OnCommitGranted(now);
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
  setbacks_.ForgetShortLives();
  if (counters_.application_used() == 0) return;
  counters_.process_failures_base = counters_.process_failures;
  counters_.out_of_memory_base = counters_.out_of_memory;
  outbox_.Change();
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

}  // namespace lockstep::core
