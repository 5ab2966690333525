#include "worker/agent/metrics/telemetry.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "base/version.h"

namespace lockstep::agent {

namespace {

constexpr Duration kSmoothing = seconds(2);

}  // namespace

Telemetry::Telemetry(std::string trainingjob, uint32_t machine, Time born)
    : metrics_({.trainingjob = std::move(trainingjob), .machine = machine, .version = kVersion}),
      goodput_(born) {}

void Telemetry::OnSpawn(uint32_t processes) {
  if (started_ == 0) first_started_ = processes;
  started_ += processes;
  paces_.clear();
}

core::RankProgress Telemetry::OnReport(Time now, const ProgressReport& report) {
  auto [it, first] = paces_.try_emplace(report.rank);
  Pace& pace = it->second;
  core::RankProgress& progress = pace.progress;
  if (first) progress.loss = std::numeric_limits<double>::quiet_NaN();
  if (!first && now > pace.at) {
    Duration passed = now - pace.at;
    if (report.step > progress.step) {
      metrics_.ObserveStep(report.rank, passed / (report.step - progress.step));
    }
    if (report.tokens > 0) {
      double rate = report.tokens / Seconds(passed);
      double share = std::min(1.0, Seconds(passed) / Seconds(kSmoothing));
      double before = progress.tokens_per_second;
      progress.tokens_per_second = before == 0 ? rate : share * rate + (1 - share) * before;
    }
  }
  pace.at = now;
  progress.rank = report.rank;
  // A bare sign of life says nothing new of these.
  if (report.step > 0) progress.step = report.step;
  if (report.total_steps > 0) progress.total_steps = report.total_steps;
  if (!std::isnan(report.loss)) progress.loss = report.loss;
  for (const auto& [name, value] : report.metrics) pace.reported[name] = value;
  return progress;
}

void Telemetry::OnHeard(Time now, const core::Message& message, bool local) {
  if (const auto* pong = std::get_if<core::Pong>(&message); pong != nullptr && !local) {
    metrics_.ObserveHeartbeat(now - pong->ping_sent);
  } else if (std::holds_alternative<core::CommitRequest>(message)) {
    goodput_.OnCommitAsked(now);
  } else if (const auto* progress = std::get_if<core::Progress>(&message)) {
    if (progress->generation != generation_) return;
    for (const core::RankProgress& rank : progress->ranks) {
      if (rank.step > 0) goodput_.OnStep(now, rank.step);
    }
  }
}

void Telemetry::OnSaid(Time now, const core::Message& message) {
  const auto* reply = std::get_if<core::CommitReply>(&message);
  if (reply == nullptr) return;
  goodput_.OnCommitAnswered(now);
  ++(reply->granted ? commits_granted_ : commits_refused_);
  if (reply->granted) last_commit_ = now;
}

void Telemetry::OnChange(Time now, const core::Coordinator& coordinator) {
  generation_ = coordinator.generation();
  goodput_.OnPhase(now, coordinator.phase());
  metrics_.ObserveHistory(coordinator.history());
}

std::string Telemetry::Scrape(Time now, const Sources& sources) {
  MetricsSnapshot snapshot;
  snapshot.generation = sources.member->generation();
  snapshot.phase = sources.member->phase();
  snapshot.counters =
      sources.coordinator ? sources.coordinator->counters() : sources.member->counters();
  snapshot.process_restarts = started_ - first_started_;
  snapshot.log_bytes = sources.logs->bytes_read();
  snapshot.console_dropped_bytes = sources.console->dropped_bytes();
  if (sources.log_files) snapshot.files_dropped_bytes = sources.log_files->dropped_bytes();
  snapshot.refused_connections = sources.listener->refused();
  snapshot.agent = stats_.ReadProcess(getpid());
  snapshot.machine = stats_.Read();
  for (const LocalRanks::View& view : sources.ranks->views()) {
    RankSnapshot rank;
    rank.rank = view.rank;
    rank.up = view.pid != 0;
    if (rank.up) rank.process = stats_.ReadProcess(view.pid);
    if (view.bound) rank.binding = view.binding.mode;
    if (auto it = paces_.find(view.rank); it != paces_.end()) {
      rank.progress = it->second.progress;
      rank.progress_age = now - it->second.at;
      rank.reported = it->second.reported;
    }
    snapshot.ranks.push_back(std::move(rank));
  }
  if (sources.coordinator) {
    GangSnapshot gang;
    gang.phase = sources.coordinator->phase();
    gang.policy = sources.coordinator->config().policy;
    gang.history = sources.coordinator->history();
    gang.goodput = goodput_.At(now);
    gang.lost_steps = goodput_.lost_steps();
    gang.commits_granted = commits_granted_;
    gang.commits_refused = commits_refused_;
    if (last_commit_) gang.checkpoint_age = now - *last_commit_;
    snapshot.gang = std::move(gang);
  }
  return metrics_.Scrape(snapshot);
}

}  // namespace lockstep::agent
