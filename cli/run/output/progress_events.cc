#include "cli/run/output/progress_events.h"

#include <charconv>
#include <chrono>
#include <utility>

namespace lockstep::cli {

using core::NamedFigure;

std::string ProgressEvents::Update(WallTime now, core::Generation generation,
                                   const core::GangProgress& progress) {
  if (folder_.empty() || progress.step <= 0) return "";
  if (generation != generation_) {
    generation_ = generation;
    file_.reset();
    step_ = 0;
  }
  // A rank that reports late puts the slowest step back, and undoes nothing.
  if (progress.step < step_) return "";
  return Write(now, progress.step, core::FiguresOf(progress));
}

std::string ProgressEvents::Finish(WallTime now, const core::JobProgress& progress) {
  if (folder_.empty() || progress.step <= step_) return "";
  std::vector<NamedFigure> figures;
  for (const core::ProgressMetric& metric : progress.metrics) {
    double value = 0;
    const char* end = metric.value.data() + metric.value.size();
    const auto [stopped, error] = std::from_chars(metric.value.data(), end, value);
    if (error == std::errc() && stopped == end) figures.push_back({metric.name, value});
  }
  return Write(now, progress.step, std::move(figures));
}

std::string ProgressEvents::Write(WallTime now, int64_t step, std::vector<NamedFigure> figures) {
  if (figures.empty() || (step == step_ && figures == figures_)) return "";
  const auto failed = [this](const Error& error) {
    return std::exchange(told_, true) ? "" : "no TensorBoard events: " + error.message;
  };
  if (!file_) {
    Result<std::unique_ptr<events::EventFile>> made = events::EventFile::Create(folder_, step);
    if (!made.ok()) return failed(made.error());
    file_ = std::move(*made);
  }
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  std::vector<events::Scalar> scalars;
  for (const NamedFigure& figure : figures) scalars.push_back({figure.name, figure.value});
  Status written = file_->Scalars(step, seconds, scalars);
  if (written.ok()) written = file_->Flush();
  if (!written.ok()) return failed(written.error());
  step_ = step;
  figures_ = std::move(figures);
  told_ = false;
  return "";
}

}  // namespace lockstep::cli
