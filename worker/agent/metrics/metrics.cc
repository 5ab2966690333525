#include "worker/agent/metrics/metrics.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <sstream>
#include <utility>

#include "worker/agent/metrics/metrics_families.h"

namespace lockstep::agent {
namespace {

using prometheus::ClientMetric;
using Label = ClientMetric::Label;

// processesPerMachine's limit: what a process calls its rank must not make the page grow.
constexpr size_t kMaxRanks = 64;

const prometheus::Histogram::BucketBoundaries& HeartbeatBuckets() {
  static const prometheus::Histogram::BucketBoundaries bounds{
      0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10};
  return bounds;
}

const prometheus::Histogram::BucketBoundaries& StepBuckets() {
  static const prometheus::Histogram::BucketBoundaries bounds{0.001, 0.003, 0.01, 0.03, 0.1, 0.3,
                                                              1,     3,     10,   30,   100, 300};
  return bounds;
}

const prometheus::Histogram::BucketBoundaries& RecoveryBuckets() {
  static const prometheus::Histogram::BucketBoundaries bounds{
      0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300};
  return bounds;
}

// Whether a generation that ended this way can be followed by another.
bool EndsInRestart(core::Cause cause) {
  return cause != core::Cause::kNone && cause != core::Cause::kRestartsExhausted;
}

}  // namespace

// The families of one scrape, in the order of kMetricFamilies.
class Metrics::Page {
 public:
  explicit Page(const Identity& identity)
      : common_{{"trainingjob", identity.trainingjob},
                {"machine", std::to_string(identity.machine)}},
        families_(kMetricFamilies.size()) {
    for (size_t i = 0; i < families_.size(); ++i) {
      families_[i].name = kMetricFamilies[i]->name;
      families_[i].help = kMetricFamilies[i]->help;
      families_[i].type = kMetricFamilies[i]->type;
    }
  }

  // A gauge or a counter, as the description says.
  void Add(const MetricDescription& description, double value, std::vector<Label> labels = {}) {
    ClientMetric sample;
    if (description.type == prometheus::MetricType::Counter) {
      sample.counter.value = value;
    } else {
      sample.gauge.value = value;
    }
    Add(description, std::move(sample), std::move(labels));
  }
  template <typename T>
  void Add(const MetricDescription& description, const std::optional<T>& value,
           std::vector<Label> labels = {}) {
    if (value) Add(description, static_cast<double>(*value), std::move(labels));
  }
  void Add(const MetricDescription& description, ClientMetric sample,
           std::vector<Label> labels = {}) {
    sample.label = common_;
    std::move(labels.begin(), labels.end(), std::back_inserter(sample.label));
    FamilyOf(description).metric.push_back(std::move(sample));
  }

  std::string Text() {
    std::erase_if(families_, [](const auto& family) { return family.metric.empty(); });
    std::ostringstream text;
    prometheus::TextSerializer().Serialize(text, families_);
    return std::move(text).str();
  }

 private:
  prometheus::MetricFamily& FamilyOf(const MetricDescription& description) {
    const auto found = std::find(kMetricFamilies.begin(), kMetricFamilies.end(), &description);
    assert(found != kMetricFamilies.end());
    return families_[static_cast<size_t>(found - kMetricFamilies.begin())];
  }

  std::vector<Label> common_;
  std::vector<prometheus::MetricFamily> families_;
};

Metrics::Recovery::Recovery(const char* name) : phase(name), seconds(RecoveryBuckets()) {}

Metrics::Metrics(Identity identity)
    : identity_(std::move(identity)),
      heartbeats_(HeartbeatBuckets()),
      steps_(StepBuckets()),
      recoveries_{Recovery("detect"), Recovery("stop"), Recovery("spawn"), Recovery("first_step")} {
}

// ---- observations ----

void Metrics::ObserveHeartbeat(Duration round_trip) {
  if (round_trip >= Duration::zero()) heartbeats_.Observe(Seconds(round_trip));
}

void Metrics::ObserveStep(uint32_t rank, Duration step) {
  if (step < Duration::zero()) return;
  if (step_times_.size() >= kMaxRanks && !step_times_.contains(rank)) return;
  StepTimes& times = step_times_[rank];
  ++times.count;
  times.seconds += Seconds(step);
  steps_.Observe(Seconds(step));
}

void Metrics::ObserveHistory(const std::vector<core::GenerationRecord>& history) {
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
    ObserveRecovery(kDetect, next.generation, ended.died, ended.stop_sent);
    ObserveRecovery(kStop, next.generation, ended.stop_sent, ended.all_stopped);
    ObserveRecovery(kSpawn, next.generation, next.announced, next.spawned);
    ObserveRecovery(kFirstStep, next.generation, next.spawned, next.first_step);
  }
}

// `generation` is the one that came after the failure. A time that is not known yet is asked for
// again; no generation's times become known after those of a later one.
void Metrics::ObserveRecovery(RecoveryPhase phase, core::Generation generation,
                              const std::optional<Time>& from, const std::optional<Time>& to) {
  Recovery& recovery = recoveries_[phase];
  if (!from || !to || generation <= recovery.last) return;
  // A failure's time comes from another machine's clock and may seem to lie after the stop.
  recovery.seconds.Observe(std::max(0.0, Seconds(*to - *from)));
  recovery.last = generation;
}

bool Metrics::Shown(const std::string& name) {
  if (reported_names_.contains(name)) return true;
  if (name.size() > kMaxReportedName || reported_names_.size() >= kMaxReportedNames) return false;
  reported_names_.insert(name);
  return true;
}

// ---- the page ----

std::string Metrics::Scrape(const MetricsSnapshot& snapshot) {
  if (snapshot.gang) ObserveHistory(snapshot.gang->history);
  Page page(identity_);
  AddAgent(snapshot, &page);
  AddMachine(snapshot.machine, &page);
  AddRanks(snapshot, &page);
  AddSteps(&page);
  if (snapshot.gang) AddGang(*snapshot.gang, snapshot.counters, &page);
  return page.Text();
}

void Metrics::AddAgent(const MetricsSnapshot& snapshot, Page* page) const {
  page->Add(metric::kBuildInfo, 1, {{"version", identity_.version}});
  page->Add(metric::kGenerationAttempt, snapshot.generation.attempt);
  page->Add(metric::kGeneration, snapshot.generation.n);
  for (int i = 0; i < core::kMemberPhaseCount; ++i) {
    const auto phase = static_cast<core::MemberPhase>(i);
    page->Add(metric::kMachinePhase, phase == snapshot.phase ? 1 : 0,
              {{"phase", core::ToString(phase)}});
  }
  page->Add(metric::kProcessRestarts, static_cast<double>(snapshot.process_restarts));
  page->Add(metric::kLogLines, snapshot.log_lines);
  page->Add(metric::kLogBytes, static_cast<double>(snapshot.log_bytes));
  page->Add(metric::kLogDropped, static_cast<double>(snapshot.console_dropped_bytes),
            {{"sink", "console"}});
  page->Add(metric::kLogDropped, snapshot.files_dropped_bytes, {{"sink", "files"}});
  page->Add(metric::kRefusedConnections, static_cast<double>(snapshot.refused_connections));
  if (snapshot.agent) {
    page->Add(metric::kAgentCpu, snapshot.agent->cpu_seconds);
    page->Add(metric::kAgentMemory, snapshot.agent->resident_bytes);
  }
}

void Metrics::AddMachine(const MachineStats& machine, Page* page) const {
  page->Add(metric::kMemory, machine.memory_bytes);
  page->Add(metric::kMemoryLimit, machine.memory_limit_bytes);
  page->Add(metric::kMemoryEvents, machine.oom_events, {{"event", "oom"}});
  page->Add(metric::kMemoryEvents, machine.oom_kills, {{"event", "oom_kill"}});
  page->Add(metric::kThrottled, machine.cpu_throttled_seconds);
  page->Add(metric::kSharedMemoryUsed, machine.shared_memory_used_bytes);
  page->Add(metric::kSharedMemorySize, machine.shared_memory_size_bytes);
}

void Metrics::AddRanks(const MetricsSnapshot& snapshot, Page* page) {
  std::set<std::string> left_out;
  for (const RankSnapshot& rank : snapshot.ranks) {
    AddRank(rank, page);
    for (const auto& [name, value] : rank.reported) {
      if (Shown(name)) {
        page->Add(metric::kReported, value, {{"rank", std::to_string(rank.rank)}, {"name", name}});
      } else {
        left_out.insert(name);
      }
    }
  }
  page->Add(metric::kReportedLeftOut, static_cast<double>(left_out.size()));
}

void Metrics::AddRank(const RankSnapshot& rank, Page* page) {
  const Label label{"rank", std::to_string(rank.rank)};
  page->Add(metric::kRankUp, rank.up ? 1 : 0, {label});
  if (rank.process) {
    CpuTime& cpu = cpu_times_[rank.rank];
    if (cpu.start_ticks != rank.process->start_ticks) {
      cpu = {rank.process->start_ticks, cpu.total(), 0};
    }
    cpu.current = std::max(cpu.current, rank.process->cpu_seconds);
    page->Add(metric::kRankMemory, rank.process->resident_bytes, {label});
  }
  if (const auto cpu = cpu_times_.find(rank.rank); cpu != cpu_times_.end()) {
    page->Add(metric::kRankCpu, cpu->second.total(), {label});
  }
  if (rank.binding != core::Binding::kUnknown) {
    page->Add(metric::kRankBinding, 1, {label, {"mode", core::ToString(rank.binding)}});
  }
  const core::RankProgress& progress = rank.progress;
  if (progress.step > 0) {
    page->Add(metric::kRankStep, static_cast<double>(progress.step), {label});
  }
  if (progress.total_steps > 0) {
    page->Add(metric::kRankTotalSteps, static_cast<double>(progress.total_steps), {label});
  }
  if (progress.step > 0 && !std::isnan(progress.loss)) {
    page->Add(metric::kRankLoss, progress.loss, {label});
  }
  if (progress.tokens_per_second > 0) {
    page->Add(metric::kRankTokens, progress.tokens_per_second, {label});
  }
  if (rank.progress_age) {
    page->Add(metric::kRankProgressAge, Seconds(*rank.progress_age), {label});
  }
}

void Metrics::AddSteps(Page* page) const {
  if (step_times_.empty()) return;
  page->Add(metric::kStepSeconds, steps_.Collect());
  for (const auto& [rank, times] : step_times_) {
    ClientMetric sample;
    sample.summary.sample_count = times.count;
    sample.summary.sample_sum = times.seconds;
    page->Add(metric::kRankStepSeconds, std::move(sample), {{"rank", std::to_string(rank)}});
  }
}

void Metrics::AddGang(const GangSnapshot& gang, const core::Counters& counters, Page* page) const {
  for (int i = 0; i < core::kCoordinatorPhaseCount; ++i) {
    const auto phase = static_cast<core::CoordinatorPhase>(i);
    page->Add(metric::kGangPhase, phase == gang.phase ? 1 : 0, {{"phase", core::ToString(phase)}});
  }
  for (int i = 0; i < core::kCauseCount; ++i) {
    const auto cause = static_cast<core::Cause>(i);
    if (!EndsInRestart(cause)) continue;
    page->Add(metric::kRestarts, static_cast<double>(restarts_[static_cast<size_t>(i)]),
              {{"cause", core::ToString(cause)}});
  }
  page->Add(metric::kGenerations, counters.generations);
  page->Add(metric::kFailures, counters.process_failures, {{"kind", "process"}});
  page->Add(metric::kFailures, counters.out_of_memory, {{"kind", "out_of_memory"}});
  page->Add(metric::kFailures, counters.replacements, {{"kind", "replacement"}});
  page->Add(metric::kFailures, counters.leases_expired, {{"kind", "lease"}});
  page->Add(metric::kStops, counters.stops);
  const Label application{"budget", "application"};
  const Label infrastructure{"budget", "infrastructure"};
  page->Add(metric::kBudgetUsed, counters.application_used(), {application});
  page->Add(metric::kBudgetUsed, counters.infrastructure_used(), {infrastructure});
  page->Add(metric::kBudgetLimit, gang.policy.max_restarts, {application});
  page->Add(metric::kBudgetLimit, gang.policy.max_machine_replacements, {infrastructure});
  for (const Recovery& recovery : recoveries_) {
    page->Add(metric::kRecovery, recovery.seconds.Collect(), {{"phase", recovery.phase}});
  }
  page->Add(metric::kLostSteps, static_cast<double>(gang.lost_steps));
  for (size_t i = 0; i < kGoodputStates; ++i) {
    page->Add(metric::kGoodput, Seconds(gang.goodput[i]),
              {{"state", ToString(static_cast<GoodputState>(i))}});
  }
  page->Add(metric::kCommits, static_cast<double>(gang.commits_granted), {{"result", "granted"}});
  page->Add(metric::kCommits, static_cast<double>(gang.commits_refused), {{"result", "refused"}});
  if (gang.checkpoint_age) page->Add(metric::kCheckpointAge, Seconds(*gang.checkpoint_age));
  page->Add(metric::kHeartbeat, heartbeats_.Collect());
}

}  // namespace lockstep::agent
