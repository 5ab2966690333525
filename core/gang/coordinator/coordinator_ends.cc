// How generations and jobs end: stop, root cause, failure policy, restarts on request, verdict.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/exit_codes.h"
#include "core/failure/peer_loss.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/coordinator/machine_fates.h"
#include "core/gang/diagnosis/root_cause.h"
#include "core/gang/protocol/rules.h"

namespace lockstep::core {

namespace {

constexpr Duration kVerdictPatience = seconds(5);

bool Requested(StopReason reason) {
  return reason != StopReason::kFailure && reason != StopReason::kMachineLost &&
         reason != StopReason::kLeaseExpired;
}

// The agents stay, with what they hold in memory, and the next generation follows.
bool GoesOnHere(StopReason reason) { return reason == StopReason::kRestarted; }

// The end of a whole container: the operator counted it before it reported it.
bool CountedBefore(const Failure& root) {
  return root.cause == Cause::kOutOfMemory && root.rank < 0;
}

std::string StopWords(StopReason reason, const std::string& words) {
  if (reason != StopReason::kRestarted) {
    return std::string("stopped on request: ") + (words.empty() ? ToString(reason) : words);
  }
  return "restarted on request" + (words.empty() ? "" : " of " + words);
}

}  // namespace

// It is blamed before each rank that says why it fails (root_cause.cc).
bool Coordinator::DiedSurely(const Slot& slot) const {
  return slot.report.generation == generation_ &&
         std::ranges::any_of(slot.report.deaths, [](const Failure& death) {
           return death.by_itself && IsNeverAReaction(death) && LossOf(death) == PeerLoss::kNone;
         });
}

void Coordinator::BeginStop(Time now, StopReason reason, Duration grace, Duration evidence) {
  if (!Live()) return;
  phase_ = CoordinatorPhase::kStopping;
  stopping_.settled_at = kNever;
  stopping_.reason = reason;
  stopping_.words.clear();
  // A process that hangs, or was out of reach, may not know what it holds; and in a gang that
  // changes, its rank may be another's in the next generation.
  stopping_.keep = reason == StopReason::kFailure && evidence <= Duration::zero() &&
                   !config_.elastic && std::ranges::none_of(roster_.gang(), [](const Slot& slot) {
                     return std::ranges::any_of(slot.report.deaths, [](const Failure& death) {
                       return death.cause == Cause::kBrokenMetric;
                     });
                   });
  stopping_.kill_at = now + grace;
  Record().stop_sent = now;
  Record().stop_reason = reason;
  outbox_.Change();
  if (grace <= Duration::zero()) commits_.RefuseAll("the generation is stopping");
  const bool sure =
      reason == StopReason::kFailure &&
      std::ranges::any_of(roster_.gang(), [this](const Slot& slot) { return DiedSurely(slot); });
  for (const Slot& slot : roster_.gang())
    Send(slot, Stop{generation_, reason, grace, evidence, stopping_.keep, sure});
}

void Coordinator::StopKept(const Slot& slot) {
  if (!slot.keeps_ranks() || !Holds(Rule::kHeldKeepsNone)) return;
  Send(slot, Stop{slot.report.generation, StopReason::kSuspended, Duration::zero()});
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
  std::vector<MachineFate> fates = FatesOf(generation_, roster_, lease_, alone_);
  NoteBadSteps(fates);
  if (Requested(stopping_.reason)) {
    ++counters_.stops;
    record.failure.cause = Cause::kStopRequested;
    record.failure.message = StopWords(stopping_.reason, stopping_.words);
    FinishRestart();
    return;
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
  if (root.cause == Cause::kHang || root.cause == Cause::kBrokenMetric) root.stderr_tail.clear();
  ApplyFailurePolicy(now, root);
}

FailureContext Coordinator::ContextOf(const Failure& root) const {
  const GenerationRecord& record = Record();
  FailureContext context;
  context.failure = root;
  context.application_failures_used = counters_.application_used() - (CountedBefore(root) ? 1 : 0);
  context.machine_failures_used = counters_.infrastructure_used();
  const bool spawned = record.spawned && *record.spawned < *record.stop_sent;
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
  const auto rule = static_cast<size_t>(root.rule);
  if (root.cause == Cause::kBrokenMetric && root.rule >= 0 && rule < metrics_.rules.size()) {
    context.metric_rule = metrics_.rules[rule];
  }
  context.earlier = static_cast<int>(metrics_.earlier);
  return context;
}

// When the gang came to a halt because of the root cause.
void Coordinator::NoteHalt(const Failure& root) {
  GenerationRecord& record = Record();
  // A death that its agent noticed late was before the STOP all the same.
  if (root.at != kNever) record.halted = record.died = std::min(root.at, *record.stop_sent);
  if (root.cause == Cause::kHang && record.died) {
    *record.halted -= hangs_.hung.value_or(config_.hang_timeout);
  }
  if (record.died || root.machine < 0) return;
  const Slot& slot = roster_[static_cast<size_t>(root.machine)];
  if (slot.lost_in == generation_) record.halted = slot.lost_at;
}

// Applies the failure policy to the root cause.
void Coordinator::ApplyFailurePolicy(Time now, const Failure& root) {
  NoteHalt(root);
  const FailureContext context = ContextOf(root);
  GenerationRecord& record = Record();
  // A program that reports no steps has started after kShortLife. One that reports may take longer
  // until its first step.
  const bool may_be_starting = context.reports || context.lived < kShortLife;
  if (may_be_starting && orders_.code.Caused(root, record.code)) return HoldForEdit(root);
  const FailureDecision decision = setbacks_.Judge(config_.policy, context);
  record.failure = setbacks_.last();

  const bool application = ClassOf(root.cause) == CauseClass::kApplication;
  if (application && !CountedBefore(root)) ++counters_.process_failures;
  if (root.cause == Cause::kLeaseExpired) ++counters_.leases_expired;
  Log("generation " + record.generation.ToString() + " ended: " + root.message + "; " +
      decision.reason);

  switch (decision.action) {
    case FailureAction::kFail: {
      Verdict failed;
      failed.generation = generation_;
      failed.exit_code = static_cast<uint32_t>(decision.exit_code);
      failed.failure = setbacks_.last();
      failed.reason = decision.reason;
      ending_.failing = std::move(failed);
      phase_ = CoordinatorPhase::kStopping;
      return;
    }
    case FailureAction::kReplaceMachine:
      if (root.machine >= 0) roster_[static_cast<size_t>(root.machine)].replace = true;
      break;
    case FailureAction::kRestartFromEarlier:
      GoBack(*context.metric_rule, root);
      break;
    case FailureAction::kRestart:
    case FailureAction::kReport:
      break;
  }
  setbacks_.WaitFor(now, orders_.restart.asked() != nullptr ? Duration::zero() : decision.backoff);
  FinishRestart();
}

// ---- metrics that broke a rule ----

void Coordinator::NoteMetric(const Slot& slot, const Report& report) {
  if (report.noted.empty() || metrics_.noted) return;
  Failure noted = report.noted.front();
  noted.machine = static_cast<int>(slot.machine);
  noted.message = Describe(noted, config_.names);
  noted.stderr_tail.clear();
  Log(noted.message);
  metrics_.noted = std::move(noted);
  outbox_.Change();
}

// Values may be bad when a generation ends for another reason, such as a lost machine. The next one
// then resumes from a checkpoint that may be bad already. If its values are bad from the start, the
// first bad step is that of the generations before it.
void Coordinator::NoteBadSteps(const std::vector<MachineFate>& fates) {
  std::optional<int64_t> lowest;
  for (const MachineFate& fate : fates) {
    for (const Failure& death : fate.deaths) {
      const auto rule = static_cast<size_t>(death.rule);
      if (death.cause != Cause::kBrokenMetric || death.rule < 0) continue;
      if (rule >= metrics_.rules.size()) continue;
      if (ActionOf(metrics_.rules[rule]) != FailureAction::kRestartFromEarlier) continue;
      lowest = std::min(lowest.value_or(death.step), death.step);
    }
  }
  if (!lowest) {
    const bool trained =
        std::ranges::any_of(progress_, [](const auto& each) { return each.second.step > 0; });
    if (trained) metrics_.suspect.reset();
    return;
  }
  const bool from_the_start = *lowest <= StepInName(Record().resume).value_or(0);
  if (from_the_start) lowest = std::min(*lowest, metrics_.suspect.value_or(*lowest));
  metrics_.suspect = lowest;
}

// If the metric breaks again no later than it did before the last restart of this kind, the
// checkpoint of that restart is bad, too, and an older one is taken.
void Coordinator::GoBack(const FailureRule& rule, const Failure& root) {
  EarlierRequest request;
  const int64_t first_bad = std::min(root.step, metrics_.suspect.value_or(root.step));
  request.before = first_bad;
  if (metrics_.bad && metrics_.from && root.step <= *metrics_.bad) {
    request.before = std::min(request.before, *metrics_.from);
  }
  if (rule.skip_steps > 0) {
    request.skip_last = root.last_step;
    request.skip_first = std::min(first_bad, root.last_step - rule.skip_steps + 1);
  }
  metrics_.bad = std::max(metrics_.bad.value_or(0), root.step);
  metrics_.request = request;
  // They hold the state that is left behind.
  for (const Slot& slot : roster_) StopKept(slot);
}

void Coordinator::OnEarlierPrepared(const Prepared& prepared) {
  metrics_.earlier = std::max(metrics_.earlier, prepared.earlier);
  if (!metrics_.request) return;
  metrics_.request.reset();
  metrics_.from = StepInName(prepared.resume).value_or(0);
  std::string line = "generation " + prepared.generation.ToString() + " goes back to " +
                     (prepared.resume.empty() ? "the beginning" : prepared.resume);
  if (!prepared.set_aside.empty()) {
    line += "; " + std::to_string(prepared.set_aside.size()) +
            " newer checkpoints stay in the folder and are not resumed from again, the newest of "
            "them " +
            prepared.set_aside.front();
  }
  if (!prepared.skip_steps.empty()) line += "; LOCKSTEP_SKIP_STEPS is " + prepared.skip_steps;
  Log(line);
}

void Coordinator::FailWithoutEarlier(Time now, const std::string& why) {
  setbacks_.NoteDecision(why);
  Log("the job ends: " + why);
  Verdict failed;
  failed.generation = generation_;
  failed.exit_code = static_cast<uint32_t>(RowOf(Cause::kBrokenMetric).exit_code);
  failed.failure = setbacks_.last();
  failed.reason = why;
  DeliverVerdict(now, std::move(failed));
}

// ---- restarts on request, and edited code ----

void Coordinator::TakeRestart(Time now, const std::optional<DesiredState::Restart>& restart) {
  if (ending_.verdict || ending_.failing) return orders_.restart.Drop();
  if (!orders_.restart.Take(restart, config_.attempt)) return;
  if (Live() && !restart->at_commit) BeginRestart(now);
  // Otherwise the generation that ends now, or has ended, is followed by one that is younger.
  if (Live() || phase_ == CoordinatorPhase::kStopping) return;
  setbacks_.EndWait(now);
  orders_.code.Release();
  FinishRestart();
}

void Coordinator::BeginRestart(Time now) {
  if (!Live()) return;
  BeginStop(now, StopReason::kRestarted, config_.grace);
  stopping_.words = orders_.restart.asked()->words;
}

void Coordinator::CheckRestart(Time now) {
  if (now >= orders_.restart.due()) BeginRestart(now);
}

void Coordinator::FinishRestart() {
  if (orders_.restart.Finish()) outbox_.Change();
}

void Coordinator::TakeCode(Time now, const std::optional<DesiredState::Code>& code) {
  if (codes_.synced()) return codes_.OnOperator(code);
  // What runs was begun before the first word, with the same code.
  if (code && orders_.code.digest().empty() && Live() && Record().code.empty()) {
    Record().code = code->digest;
  }
  if (orders_.code.Take(code)) setbacks_.EndWait(now);
}

void Coordinator::HoldForEdit(const Failure& root) {
  GenerationRecord& record = Record();
  record.failure = root;
  orders_.code.Hold(root.message);
  setbacks_.Note(root, "the edited code failed before its first step");
  ++counters_.stops;
  for (const Slot& slot : roster_) StopKept(slot);  // they have the old code
  Log("generation " + record.generation.ToString() + " ended: " + root.message +
      "; the gang waits for the next edit");
  FinishRestart();
}

void Coordinator::CheckCode(Time now) {
  if (!SpreadsCode()) return;
  if (const std::optional<CodeOffer> code = codes_.Step(now, generation_)) RunCode(now, *code);
}

void Coordinator::RunCode(Time now, const CodeOffer& code) {
  const DesiredState::Code wanted{code.digest, code.watched};
  if (orders_.code.Take(wanted, code.receiver)) setbacks_.EndWait(now);
  const bool runs = !history_.empty() && Record().code == code.digest;
  if (Live() && runs) return;
  Log("the gang goes on with the code that " + code.by + " synced: " + code.words);
  if (Live()) {
    BeginStop(now, StopReason::kRestarted, config_.grace);
    stopping_.words = code.by + ": " + code.words;
    return;
  }
  if (!Holds(Rule::kKeptHaveTheCode)) return;
  if (phase_ == CoordinatorPhase::kStopping && stopping_.keep) {
    stopping_.keep = false;
    for (const Slot& slot : roster_.gang()) {
      const Duration left = std::max(stopping_.kill_at - now, Duration::zero());
      Send(slot, Stop{generation_, stopping_.reason, left, {}, stopping_.keep});
    }
  }
  for (const Slot& slot : roster_) StopKept(slot);
  if (phase_ == CoordinatorPhase::kPreparing) Wait();
}

bool Coordinator::KeptHaveOtherCode() const {
  return codes_.synced() && !history_.empty() && Record().code != codes_.wanted() &&
         Holds(Rule::kKeptHaveTheCode);
}

std::optional<SyncedCode> Coordinator::code() const {
  if (!codes_.synced()) return std::nullopt;
  SyncedCode view = codes_.View();
  view.broken = orders_.code.holds();
  return view;
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
  FailureContext context;
  context.failure.cause = Cause::kConfiguration;
  context.failure.machine = machine;
  context.failure.message = what;
  const FailureDecision decision = DecideFailure({}, context);
  setbacks_.Note(context.failure, decision.reason);
  Log("the job ends: " + what);
  Verdict failed;
  failed.generation = generation_;
  failed.exit_code = static_cast<uint32_t>(decision.exit_code);
  failed.failure = setbacks_.last();
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
      if (missing.empty() && !codes_.Reason().empty()) return codes_.Reason();
      if (missing.empty()) return "waiting for heartbeats";
      return "waiting for machines " + missing + " of " + std::to_string(roster_.members().size()) +
             (unwritten().empty() ? "" : "; " + unwritten());
    }
    case CoordinatorPhase::kFencing:
      return "waiting until no rank of an earlier generation can be alive";
    case CoordinatorPhase::kBackoff:
      return "waiting " + std::to_string(setbacks_.backoff() / seconds(1)) +
             " s before the next generation: " + setbacks_.decision();
    case CoordinatorPhase::kHeld:
      if (!orders_.stop && !orders_.code.holds()) return codes_.Reason();
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
      if (!preparation_.slow) return setbacks_.decision();
      if (ports_.waits_for_machines())
        return "waiting until every machine has reported its free ports";
      if (preparation_.prepared)
        return "waiting until every machine has its part of a checkpoint in memory";
      return "waiting for the checkpoint folder " + config_.checkpoint_path +
             ": its file system has not answered for " +
             std::to_string(Preparation::kSlowAfter / seconds(1)) + " s";
    case CoordinatorPhase::kStarting:
    case CoordinatorPhase::kRunning:
      return setbacks_.decision();
  }
  return "";
}

}  // namespace lockstep::core
