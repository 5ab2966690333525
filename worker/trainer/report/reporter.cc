#include "worker/trainer/report/reporter.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/events/append.h"
#include "worker/trainer/process/exit_code.h"

namespace lockstep::trainer {

namespace {

constexpr Duration kAliveEvery = seconds(1);

void Print(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace

Status Reporter::Open(const Options& options, AgentLink& agent) {
  options_ = options;
  agent_ = &agent;
  if (first()) scalars_.emplace(options.tensorboard, options.step);
  constexpr std::string_view kRank = "{rank}";
  std::string name = options.metrics;
  const size_t place = name.find(kRank);
  if (place != std::string::npos) {
    name.replace(place, kRank.size(), std::to_string(options.rank));
  } else if (!first()) {
    return {};
  }
  if (name.empty()) return {};
  metrics_.reset(open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!metrics_.valid()) {
    return Error::Invalid("cannot write " + name + ": " + std::strerror(errno));
  }
  metrics_path_ = std::move(name);
  return {};
}

void Reporter::WriteMetrics(const std::string& line) {
  if (!metrics_.valid()) return;
  const Status written = events::AppendWhole(metrics_.get(), line + "\n", metrics_path_);
  if (!written.ok() && !metrics_lost_) {
    Warn("figures are left out of the file: " + written.error().message);
  }
  metrics_lost_ = !written.ok();
}

void Reporter::Tell(const StepRecord& record, const Numbers& more, bool stopping) {
  Numbers numbers = ForAgent(record);
  numbers.insert(numbers.end(), more.begin(), more.end());
  agent_->Report(numbers);
  WriteMetrics(Json(record));
  if (!first()) return;
  scalars_->Add(record.step, ForTensorBoard(record));
  const bool due = options_.log_every > 0 && record.step % options_.log_every == 0;
  if (due || stopping || record.step == 1 || record.step == record.total_steps) {
    Print(Line(record));
  }
}

void Reporter::Tell(const Validation& validation) {
  agent_->Report(ForAgent(validation));
  WriteMetrics(Json(validation));
  if (!first()) return;
  scalars_->Add(validation.step, ForTensorBoard(validation));
}

void Reporter::Say(const Validation& validation) const {
  if (first()) Print(Line(validation));
}

void Reporter::TellAlive() {
  const Time now = BootTime();
  if (now - alive_ < kAliveEvery) return;
  alive_ = now;
  agent_->Report({});
}

void Reporter::Flush() {
  if (scalars_) scalars_->Flush();
}

}  // namespace lockstep::trainer
