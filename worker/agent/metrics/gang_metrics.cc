#include "worker/agent/metrics/gang_metrics.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/status/generation_span.h"

namespace lockstep::agent {
namespace {

// Whether a generation that ended this way can be followed by another.
bool EndsInRestart(core::Cause cause) {
  return cause != core::Cause::kNone && cause != core::Cause::kRestartsExhausted;
}

}  // namespace

GangMetrics::Recovery::Recovery(const char* name)
    : phase(name),
      seconds({0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300}) {}

GangMetrics::GangMetrics(const core::Coordinator* coordinator, std::function<Time()> now)
    : coordinator_(coordinator),
      now_(std::move(now)),
      born_(now_()),
      goodput_(born_),
      heartbeats_({0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10}) {}

// ---- what happens ----

void GangMetrics::OnHeard(const core::Message& message, bool local) {
  const Time now = now_();
  if (const auto* pong = std::get_if<core::Pong>(&message); pong != nullptr && !local) {
    if (now >= pong->ping_sent) heartbeats_.Observe(Seconds(now - pong->ping_sent));
  } else if (std::holds_alternative<core::CommitRequest>(message)) {
    goodput_.OnCommitAsked(now);
  } else if (const auto* progress = std::get_if<core::Progress>(&message)) {
    if (progress->generation != coordinator_->generation()) return;
    for (const core::RankProgress& rank : progress->ranks) {
      if (rank.step > 0) goodput_.OnStep(now, rank.step);
    }
  }
}

void GangMetrics::OnSaid(const core::Message& message) {
  const auto* reply = std::get_if<core::CommitReply>(&message);
  if (reply == nullptr) return;
  const Time now = now_();
  goodput_.OnCommitAnswered(now);
  ++(reply->granted ? commits_granted_ : commits_refused_);
  if (reply->granted) last_commit_ = now;
}

void GangMetrics::OnChange() {
  goodput_.OnPhase(now_(), coordinator_->phase());
  OnHistory(coordinator_->history());
}

// With the coordinator's clock for the time of day; the ledger keeps the one that it was begun
// with.
void GangMetrics::AccountTo(core::Ledger& ledger,
                            const std::vector<core::GenerationRecord>& history) const {
  const core::CoordinatorPhase phase = coordinator_->phase();
  if (phase == core::CoordinatorPhase::kVerdict || phase == core::CoordinatorPhase::kDone) return;
  std::vector<core::GenerationSpan> spans;
  for (const core::GenerationRecord& record : history) {
    spans.push_back(core::SpanOf(record, [](std::optional<Time> time) {
      return time ? std::optional(WallTime(*time)) : std::nullopt;
    }));
  }
  core::LedgerMoment moment;
  moment.now = WallTime(now_());
  moment.machines = static_cast<int>(coordinator_->config().machines);
  moment.begun = WallTime(born_);
  core::Account(ledger, spans, moment);
}

void GangMetrics::OnHistory(const std::vector<core::GenerationRecord>& history) {
  AccountTo(ledger_, history);
  for (size_t i = 1; i < history.size(); ++i) {
    const core::GenerationRecord& ended = history[i - 1];
    const core::GenerationRecord& next = history[i];
    const core::Cause cause = ended.failure.cause;
    if (!EndsInRestart(cause)) continue;
    if (next.generation > last_restarted_) {
      ++restarts_[static_cast<size_t>(cause)];
      last_restarted_ = next.generation;
    }
    if (cause == core::Cause::kStopRequested) continue;
    detect_.Observe(next.generation, ended.died, ended.stop_sent);
    stop_.Observe(next.generation, ended.stop_sent, ended.all_stopped);
    spawn_.Observe(next.generation, next.announced, next.spawned);
    first_step_.Observe(next.generation, next.spawned, next.first_step);
  }
}

// No generation's times become known after those of a later one.
void GangMetrics::Recovery::Observe(core::Generation generation, const std::optional<Time>& from,
                                    const std::optional<Time>& to) {
  if (!from || !to || generation <= last) return;
  // A failure's time comes from another machine's clock and may seem to lie after the stop.
  seconds.Observe(std::max(0.0, Seconds(*to - *from)));
  last = generation;
}

// ---- the page ----

std::vector<prometheus::MetricFamily> GangMetrics::Collect() const {
  const Time now = now_();
  Families page;
  for (int i = 0; i < core::kCoordinatorPhaseCount; ++i) {
    const auto phase = static_cast<core::CoordinatorPhase>(i);
    page.Gauge("lockstep_gang_phase", "1 for the phase the gang is in, 0 for every other one.",
               phase == coordinator_->phase() ? 1 : 0, {{"phase", core::ToString(phase)}});
  }
  page.Counter("lockstep_generations_total",
               "Generations started in the whole life of the job, under earlier machines 0 too.",
               coordinator_->counters().generations);
  AddFailures(&page);
  for (const Recovery* recovery : {&detect_, &stop_, &spawn_, &first_step_}) {
    page.Histogram("lockstep_recovery_seconds",
                   "Parts of each recovery from a failure: detect (failure to stop sent), stop (to "
                   "all processes dead), spawn (announcement of the next generation to its last "
                   "process started), first_step (to the first step reported).",
                   recovery->seconds.Collect(), {{"phase", recovery->phase}});
  }
  page.Counter("lockstep_lost_steps_total", "Steps that were repeated after a restart.",
               goodput_.lost_steps());
  const GoodputDurations goodput = goodput_.At(now);
  for (size_t i = 0; i < kGoodputStates; ++i) {
    page.Counter("lockstep_goodput_seconds_total",
                 "The job's time since this machine 0 began: productive, unknown (no step was ever "
                 "reported), lost (steps done again), restart, waiting or checkpoint; the six add "
                 "up to all of it.",
                 Seconds(goodput[i]), {{"state", ToString(static_cast<GoodputState>(i))}});
  }
  AddLedger(&page);
  const std::optional<core::Straggler>& straggler = coordinator_->straggler();
  page.Gauge(
      "lockstep_straggler_wait_ratio",
      "Share of each step in which the others wait for the machine that the label names, the "
      "last to come to their collectives; 0 without one.",
      straggler ? straggler->cost : 0,
      {{"straggler", straggler ? std::to_string(straggler->machine) : "none"}});
  const std::optional<core::SuspectedHang>& hang = coordinator_->hang();
  page.Gauge("lockstep_hang_suspected",
             "1 while the gang makes no step and a hang is suspected, else 0. activity: what the "
             "ranks do: Quiet, SomeWork, AllWork or Unknown; none without a hang.",
             hang ? 1 : 0, {{"activity", hang ? core::ToString(hang->activity) : "none"}});
  AddPreflight(&page);
  const char* commits =
      "Requests to commit a checkpoint, granted or refused, since this machine 0 began.";
  page.Counter("lockstep_commits_total", commits, commits_granted_, {{"result", "granted"}})
      .Counter("lockstep_commits_total", commits, commits_refused_, {{"result", "refused"}});
  if (last_commit_) {
    page.Gauge("lockstep_checkpoint_age_seconds",
               "Time since the last commit was granted; absent before the first one since this "
               "machine 0 began.",
               Seconds(now - *last_commit_));
  }
  return page
      .Histogram("lockstep_heartbeat_round_trip_seconds",
                 "Time from a heartbeat to a member's answer, over all members.",
                 heartbeats_.Collect())
      .Take();
}

void GangMetrics::AddLedger(Families* page) const {
  core::Ledger ledger = ledger_;
  AccountTo(ledger, coordinator_->history());
  for (const auto& activity : core::kEnumNames<core::Activity>) {
    if (activity.value == core::Activity::kWaitingForNodes) continue;  // the operator's to know
    const auto spent = ledger.sums.activities.find(activity.value);
    const bool none = spent == ledger.sums.activities.end();
    page->Gauge("lockstep_machine_time_seconds",
                "Time of all of the job's machines since this machine 0 began, by activity as in "
                "status.ledger. Time of the running generation may still move to another activity.",
                none ? 0 : Seconds(milliseconds(spent->second)), {{"activity", activity.name}});
  }
}

void GangMetrics::AddPreflight(Families* page) const {
  const std::optional<core::PreflightStatus> preflight = coordinator_->preflight();
  if (!preflight) return;
  for (const bool replaced : {true, false}) {
    page->Gauge("lockstep_preflight_slow_machines",
                "Machines that preflight found slow since this machine 0 began, of the last 16: "
                "replaced, or kept because enough were.",
                static_cast<double>(
                    std::ranges::count(preflight->slow, replaced, &core::SlowMachine::replaced)),
                {{"result", replaced ? "replaced" : "kept"}});
  }
}

void GangMetrics::AddFailures(Families* page) const {
  for (int i = 0; i < core::kCauseCount; ++i) {
    const auto cause = static_cast<core::Cause>(i);
    if (!EndsInRestart(cause)) continue;
    page->Counter("lockstep_restarts_total",
                  "Generations started again since this machine 0 began, by the cause that ended "
                  "the one before.",
                  restarts_[static_cast<size_t>(i)], {{"cause", core::ToString(cause)}});
  }
  const core::Counters& counters = coordinator_->counters();
  const std::pair<const char*, uint32_t> kinds[] = {{"process", counters.process_failures},
                                                    {"out_of_memory", counters.out_of_memory},
                                                    {"replacement", counters.replacements},
                                                    {"lease", counters.leases_expired}};
  for (const auto& [kind, count] : kinds) {
    page->Counter("lockstep_failures_total",
                  "Failures in the whole life of the job: process, out_of_memory, "
                  "replacement, lease.",
                  count, {{"kind", kind}});
  }
  page->Counter("lockstep_rank_restarts_total",
                "Ranks started again alone (roles with restart: Alone) in the whole life of the "
                "job; lockstep_failures_total counts their deaths as process, too, except those at "
                "the gang's end.",
                counters.alone);
  page->Counter("lockstep_requested_stops_total",
                "Generations stopped on request in the whole life of the job: suspend, drain, "
                "scale and so on.",
                counters.stops);
  const core::FailurePolicy& policy = coordinator_->config().policy;
  const std::tuple<const char*, uint32_t, int32_t> budgets[] = {
      {"application", counters.application_used(), policy.max_restarts},
      {"infrastructure", counters.infrastructure_used(), policy.max_machine_replacements}};
  for (const auto& [budget, used, limit] : budgets) {
    page->Gauge("lockstep_restart_budget_used",
                "Failures charged to the budget since it was last full: application, "
                "infrastructure.",
                used, {{"budget", budget}})
        .Gauge("lockstep_restart_budget_limit",
               "The budget: maxRestarts (application), maxMachineReplacements (infrastructure).",
               limit, {{"budget", budget}});
  }
}

}  // namespace lockstep::agent
