#include "worker/agent/ranks/rank_metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

namespace lockstep::agent {
namespace {

// processesPerMachine's limit: what a process calls its rank must not make the page grow.
constexpr size_t kMaxRanks = 64;
constexpr Duration kSmoothing = seconds(2);
constexpr const char* kWaitName = "collective_wait_seconds";
constexpr const char* kLoadName = "checkpoint_load_seconds";
constexpr const char* kValidationName = "validation_seconds";
constexpr double kLongestLoad = 1e6;
constexpr int64_t kMostStepsAtOnce = 1'000'000;
constexpr double kMostGpus = 1024;
constexpr Duration kThrottledEvery = milliseconds(500);  // as often as progress is told

// Of what passed since the last step: what went into steps, and not into a validation.
Duration InSteps(const ProgressReport& report, Duration passed) {
  const auto validation = report.metrics.find(kValidationName);
  if (validation == report.metrics.end() || !(validation->second > 0)) return passed;
  if (validation->second >= Seconds(passed)) return Duration::zero();
  return passed - duration_cast<Duration>(std::chrono::duration<double>(validation->second));
}

// Of what a program may say under this name: a rate or a share, or 0 where it says none.
void TakeFigure(const ProgressReport& report, std::string_view name, double* figure) {
  const auto said = report.metrics.find(std::string(name));
  if (said == report.metrics.end()) return;
  *figure = std::isfinite(said->second) ? std::max(said->second, 0.0) : 0;
}

// What a program reports about its GPU, under the trainer's names
// (docs/internals/trainer.md). It reports steps more often.
void TakeGpu(const ProgressReport& report, core::RankProgress* progress) {
  const auto number = report.metrics.find("gpu_index");
  if (number != report.metrics.end() && number->second >= 0 && number->second < kMostGpus) {
    progress->gpu = static_cast<int32_t>(number->second);
  }
  TakeFigure(report, "gpu_sm_clock_hertz", &progress->gpu_clock.hertz);
  TakeFigure(report, "gpu_max_sm_clock_hertz", &progress->gpu_clock.most);
  for (const auto& [name, bit] : {std::pair("gpu_slowed_by_power", core::kSlowedByPower),
                                  std::pair("gpu_slowed_by_heat", core::kSlowedByHeat),
                                  std::pair("gpu_slowed_by_hardware", core::kSlowedByHardware)}) {
    const auto said = report.metrics.find(name);
    if (said == report.metrics.end()) continue;
    progress->gpu_clock.slowed &= ~uint32_t{bit};
    if (said->second > 0) progress->gpu_clock.slowed |= bit;
  }
}

// Times, sizes and what the agent knows under another name stay on the metrics page. Others are
// what the program measures of its own: an accuracy, a reward.
bool IsNamedFigure(const std::string& name) {
  if (name.empty() || name.size() > core::kMaxFigureName || name.starts_with("gpu_")) return false;
  if (name.ends_with("_seconds") || name.ends_with("_bytes") || name.ends_with("_hertz")) {
    return false;
  }
  if (core::IsKnownFigure(name)) return false;
  return std::ranges::none_of(name, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

Label Of(uint32_t rank) { return {"rank", std::to_string(rank)}; }

}  // namespace

std::vector<core::NamedFigure> FiguresIn(const ProgressReport& report) {
  std::vector<core::NamedFigure> figures;
  if (!std::isnan(report.loss)) figures.push_back({"loss", report.loss});
  for (const auto& [name, value] : report.metrics) figures.push_back({name, value});
  for (const auto& [name, value] : report.broken) figures.push_back({name, value});
  return figures;
}

std::vector<core::NamedFigure> FiguresIn(const core::LineFigures& figures) {
  std::vector<core::NamedFigure> named;
  const auto add = [&named](const char* name, const std::optional<double>& value) {
    if (value) named.push_back({name, *value});
  };
  add("loss", figures.loss);
  add("accuracy", figures.accuracy);
  add("gradient_norm", figures.gradient_norm);
  add("learning_rate", figures.learning_rate);
  return named;
}

RankMetrics::RankMetrics(Views views, std::function<Time()> now, MachineStatsReader stats)
    : views_(std::move(views)),
      now_(std::move(now)),
      stats_(std::move(stats)),
      steps_({0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300}) {}

// ---- what happens ----

void RankMetrics::OnSpawn(uint32_t processes, uint32_t kept) {
  if (started_ == 0) first_started_ = processes;
  started_ += processes - kept;
  kept_ += kept;
  paces_.clear();
}

// A report of no step is of one all the same; one of several steps tells their mean.
void RankMetrics::AddWait(const ProgressReport& report, core::RankProgress* progress) {
  const auto wait = report.metrics.find(kWaitName);
  if (wait == report.metrics.end() || !(wait->second >= 0)) return;
  const int64_t passed = progress->step > 0 ? report.step - progress->step : 1;
  const int64_t steps = std::clamp<int64_t>(passed, 1, kMostStepsAtOnce);
  progress->waits += steps;
  progress->waited += wait->second * static_cast<double>(steps);
  if (now_() >= throttled_read_ + kThrottledEvery) {
    throttled_read_ = now_();
    throttled_ = stats_.Read().cpu_throttled_seconds.value_or(0);
  }
  progress->throttled = throttled_;
}

void RankMetrics::TakeFigures(const ProgressReport& report, core::RankProgress* progress) {
  for (const auto& [name, value] : report.metrics) {
    if (!std::isfinite(value) || !IsNamedFigure(name)) continue;
    if (!figure_names_.contains(name) && figure_names_.size() == core::kMaxNamedFigures) continue;
    figure_names_.insert(name);
    std::vector<core::NamedFigure>& figures = progress->figures;
    const auto place = std::ranges::lower_bound(figures, name, {}, &core::NamedFigure::name);
    if (place != figures.end() && place->name == name) {
      place->value = value;
    } else {
      figures.insert(place, {name, value});
    }
  }
}

core::RankProgress RankMetrics::OnReport(const ProgressReport& report) {
  const Time now = now_();
  auto [it, first] = paces_.try_emplace(report.rank);
  Pace& pace = it->second;
  core::RankProgress& progress = pace.progress;
  if (first) progress.loss = std::numeric_limits<double>::quiet_NaN();
  const Duration passed = first ? Duration::zero() : InSteps(report, now - pace.worked);
  if (passed > Duration::zero()) {
    if (progress.step > 0 && report.step > progress.step) {
      ObserveStep(report.rank, passed / (report.step - progress.step));
    }
    if (report.tokens > 0) {
      double rate = report.tokens / Seconds(passed);
      double share = std::min(1.0, Seconds(passed) / Seconds(kSmoothing));
      double before = progress.tokens_per_second;
      progress.tokens_per_second = before == 0 ? rate : share * rate + (1 - share) * before;
    }
  }
  pace.at = now;
  // A bare sign of life ends no step; one begins after a validation that is told by itself.
  if (first || report.step > 0 || report.tokens > 0 || report.metrics.contains(kValidationName)) {
    pace.worked = now;
  }
  progress.rank = report.rank;
  AddWait(report, &progress);
  for (const core::KnownFigure& figure : core::kKnownFigures) {
    TakeFigure(report, figure.reported, &(progress.known.*figure.value));
  }
  TakeGpu(report, &progress);
  TakeFigures(report, &progress);
  const auto load = report.metrics.find(kLoadName);
  if (load != report.metrics.end() && progress.loaded == 0) {
    progress.loaded = std::clamp(load->second, 0.0, kLongestLoad);
  }
  // A bare sign of life says nothing new of these.
  if (report.step > 0) {
    progress.step = report.step;
    if (progress.source != core::StepSource::kReports) progress.tokens_per_second = 0;
    progress.source = core::StepSource::kReports;
  }
  if (report.total_steps > 0) progress.total_steps = report.total_steps;
  if (!std::isnan(report.loss)) progress.loss = report.loss;
  Keep(report, &pace);
  return progress;
}

void RankMetrics::OnFigures(const ProgressReport& report) {
  Pace& pace = paces_[report.rank];
  pace.at = now_();
  pace.progress.rank = report.rank;
  Keep(report, &pace);
}

void RankMetrics::Keep(const ProgressReport& report, Pace* pace) {
  for (const auto& [name, value] : report.metrics) {
    if (IsKept(name)) {
      pace->reported[name] = value;
    } else {
      ++left_out_;
    }
  }
}

core::RankProgress RankMetrics::OnOutput(uint32_t rank, const core::OutputProgress& output) {
  const core::LineFigures& figures = output.figures;
  ProgressReport report;
  report.rank = rank;
  report.step = output.step;
  report.total_steps = output.total;
  report.loss = figures.loss.value_or(std::numeric_limits<double>::quiet_NaN());
  const auto keep = [&report](const char* name, const std::optional<double>& value) {
    if (value && std::isfinite(*value)) report.metrics[name] = *value;
  };
  keep("accuracy", figures.accuracy);
  keep("gradient_norm", figures.gradient_norm);
  keep("learning_rate", figures.learning_rate);
  keep("samples_per_second", figures.samples_per_second);
  keep("teraflops", figures.teraflops);
  keep("mfu", figures.mfu);
  if (output.epoch) report.metrics["epoch"] = static_cast<double>(*output.epoch);
  OnReport(report);
  core::RankProgress& progress = paces_[rank].progress;
  progress.source = output.derived ? core::StepSource::kEpochs : core::StepSource::kOutput;
  progress.tokens_per_second = figures.tokens_per_second.value_or(0);
  progress.total_steps = output.total;
  return progress;
}

void RankMetrics::ObserveStep(uint32_t rank, Duration step) {
  if (step_times_.size() >= kMaxRanks && !step_times_.contains(rank)) {
    // Where machines were left out or came back, this one's ranks had other numbers.
    std::erase_if(step_times_, [this](const auto& each) { return !paces_.contains(each.first); });
    if (step_times_.size() >= kMaxRanks) return;
  }
  StepTimes& times = step_times_[rank];
  ++times.count;
  times.seconds += Seconds(step);
  steps_.Observe(Seconds(step));
}

// ---- the page ----

std::vector<prometheus::MetricFamily> RankMetrics::Collect() const {
  Families page;
  page.Counter("lockstep_process_restarts_total",
               "Processes started again on this machine by restarts of the gang.",
               started_ - first_started_);
  page.Counter("lockstep_processes_kept_total",
               "Processes of this machine that stayed alive into the next generation.", kept_);
  for (const RankView& view : views_()) {
    AddProcess(view, &page);
    AddPlacement(view, &page);
    const auto pace = paces_.find(view.rank);
    if (pace == paces_.end()) continue;
    AddProgress(pace->second, &page);
    for (const auto& [name, value] : pace->second.reported) {
      page.Gauge(
          "lockstep_reported",
          "What the rank reported under this name; the first 64 names of a machine are kept.",
          value, {Of(view.rank), {"name", name}});
    }
  }
  page.Counter("lockstep_reported_left_out_total",
               "Values reported under names that are not kept: beyond the machine's first 64, or "
               "longer than 128 bytes.",
               left_out_);
  if (step_times_.empty()) return page.Take();
  for (const auto& [rank, times] : step_times_) {
    prometheus::ClientMetric sample;
    sample.summary.sample_count = times.count;
    sample.summary.sample_sum = times.seconds;
    page.Summary(
        "lockstep_rank_step_seconds",
        "Time from one reported step of the rank to its next, validations left out, per step.",
        sample, {Of(rank)});
  }
  return page
      .Histogram("lockstep_step_seconds",
                 "Time from one reported step of a rank to its next, validations left out, per "
                 "step, over this machine's "
                 "ranks.",
                 steps_.Collect())
      .Take();
}

void RankMetrics::AddProcess(const RankView& view, Families* page) const {
  const Label rank = Of(view.rank);
  page->Gauge("lockstep_rank_up", "1 while the rank's process runs, else 0.", view.pid != 0 ? 1 : 0,
              {rank});
  std::optional<ProcessStats> process;
  if (view.pid != 0) process = stats_.ReadProcess(view.pid);
  if (process) {
    CpuTime& cpu = cpu_times_[view.rank];
    if (cpu.start_ticks != process->start_ticks) cpu = {process->start_ticks, cpu.total(), 0};
    cpu.current = std::max(cpu.current, process->cpu_seconds);
    page->Gauge("lockstep_rank_resident_memory_bytes", "Resident memory of the rank's process.",
                process->resident_bytes, {rank});
  }
  if (const auto cpu = cpu_times_.find(view.rank); cpu != cpu_times_.end()) {
    page->Counter("lockstep_rank_cpu_seconds_total",
                  "CPU time of the rank's process, and of earlier ones as far as scrapes saw them.",
                  cpu->second.total(), {rank});
  }
  if (view.bound && view.binding.mode != core::Binding::kUnknown) {
    page->Gauge("lockstep_rank_binding_info",
                "1; the label names the binding in effect: None, Partial, or as `topology.bind` "
                "asked.",
                1, {rank, {"mode", core::ToString(view.binding.mode)}});
  }
}

void RankMetrics::AddPlacement(const RankView& view, Families* page) const {
  if (!view.bound || !view.binding.placement) return;
  const topology::MemoryPlacement& placement = *view.binding.placement;
  for (const auto& [locality, bytes] :
       {std::pair("local", placement.local_bytes), std::pair("remote", placement.remote_bytes)}) {
    page->Gauge(
        "lockstep_rank_numa_memory_bytes",
        "Memory of the rank's process, files left out, on its binding's NUMA nodes (local) and on "
        "others with CPUs (remote), read at its start and first step, then each minute, or less "
        "often, so that reading costs at most a hundredth of the gang's time.",
        static_cast<double>(bytes), {Of(view.rank), {"locality", locality}});
  }
}

void RankMetrics::AddProgress(const Pace& pace, Families* page) const {
  const core::RankProgress& progress = pace.progress;
  const Label rank = Of(progress.rank);
  if (progress.step > 0) {
    page->Gauge("lockstep_rank_step", "The last step that the rank reported.", progress.step,
                {rank});
  }
  if (progress.total_steps > 0) {
    page->Gauge("lockstep_rank_total_steps",
                "The steps of the whole job, if the rank reported them.", progress.total_steps,
                {rank});
  }
  if (progress.step > 0 && !std::isnan(progress.loss)) {
    page->Gauge("lockstep_rank_loss", "The last loss that the rank reported.", progress.loss,
                {rank});
  }
  AddValidation(pace, page);
  if (progress.known.scaling > 0) {
    page->Gauge("lockstep_trainer_scaling_efficiency",
                "Tokens a second of a rank in training, divided by those of a rank alone, as the "
                "rank reported it as `scaling_efficiency`.",
                progress.known.scaling, {rank});
  }
  if (progress.tokens_per_second > 0) {
    page->Gauge("lockstep_rank_tokens_per_second",
                "Tokens a second that the rank processed lately.", progress.tokens_per_second,
                {rank});
  }
  page->Gauge("lockstep_rank_progress_age_seconds",
              "Time since the rank last reported progress in this generation.",
              Seconds(now_() - pace.at), {rank});
}

void RankMetrics::AddValidation(const Pace& pace, Families* page) {
  const Labels rank = {Of(pace.progress.rank)};
  const auto loss = pace.reported.find("validation_loss");
  if (loss != pace.reported.end()) {
    page->Gauge("lockstep_trainer_validation_loss",
                "The last loss on held-out data that the rank reported, as `validation_loss`.",
                loss->second, rank);
  }
  const auto perplexity = pace.reported.find("validation_perplexity");
  if (perplexity != pace.reported.end()) {
    page->Gauge("lockstep_trainer_validation_perplexity",
                "The last perplexity of held-out data that the rank reported, as "
                "`validation_perplexity`.",
                perplexity->second, rank);
  }
}

bool RankMetrics::IsKept(const std::string& name) {
  if (reported_names_.contains(name)) return true;
  if (name.size() > kMaxReportedName || reported_names_.size() >= kMaxReportedNames) return false;
  reported_names_.insert(name);
  return true;
}

}  // namespace lockstep::agent
