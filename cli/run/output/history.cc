#include "cli/run/output/history.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

namespace lockstep::cli {
namespace {

std::optional<Duration> Between(const std::optional<Time>& from, const std::optional<Time>& to) {
  if (!from || !to) return std::nullopt;
  return std::max(*to - *from, Duration::zero());
}

// "detect 1, stop 2, spawn 3", in milliseconds as the sentence around it.
std::string Parts(const Recovery& recovery) {
  std::string parts;
  auto add = [&](const char* name, const std::optional<Duration>& part, bool always) {
    if (!part || (!always && *part < milliseconds(1))) return;
    parts += (parts.empty() ? "" : ", ") + std::string(name) + " " + Brief(*part);
  };
  add("detect", recovery.detect, true);
  add("stop", recovery.stop, true);
  add("wait", recovery.wait, false);
  add("spawn", recovery.spawn, true);
  return parts.empty() ? "" : " (" + parts + ")";
}

std::string EndOf(const GenerationEntry& entry) {
  std::string cause = entry.failure.message;
  if (cause.empty()) cause = ToString(entry.failure.cause);
  return "generation " + entry.generation.ToString() + " ended: " + cause;
}

std::string Ranks(int64_t ranks) {
  if (ranks == 1) return "its rank";
  return ranks == 2 ? "both ranks" : "all " + std::to_string(ranks) + " ranks";
}

std::string ResumeOf(const GenerationEntry& entry) {
  if (entry.resume.empty()) return "";
  return ", from checkpoint " + std::filesystem::path(entry.resume).filename().string();
}

// Of the time in which it did steps, as large a part as the ledger takes (core/status/ledger.h).
void SetRedone(int64_t furthest, const GenerationEntry& next, std::optional<Time> until,
               Recovery& recovery) {
  if (!next.first_step || next.resumed_at <= 0) return;
  recovery.redone_steps = std::max<int64_t>(furthest - next.resumed_at + 1, 0);
  for (const std::optional<Time>& end : {next.halted, next.died, next.stop_sent, next.ended}) {
    if (end) until = std::min(until.value_or(*end), *end);
  }
  if (!until) return;
  const Duration stepped = std::max(*until - *next.first_step, Duration::zero());
  recovery.redone = Duration::zero();
  if (next.resumed_at > furthest) return;
  if (next.last_step <= furthest) {
    recovery.redone = stepped;
    return;
  }
  const auto again = static_cast<double>(furthest - next.resumed_at);
  const auto all = static_cast<double>(next.last_step - next.resumed_at);
  recovery.redone = std::chrono::duration_cast<Duration>(stepped * (again / all));
}

}  // namespace

std::string Brief(Duration duration) {
  std::array<char, 32> text{};
  double ms = std::chrono::duration<double, std::milli>(duration).count();
  auto whole = duration / seconds(1);
  if (ms < 9.95) {
    std::snprintf(text.data(), text.size(), "%.1f ms", ms);
  } else if (ms < 999.5) {
    std::snprintf(text.data(), text.size(), "%.0f ms", ms);
  } else if (ms < 59'950) {
    std::snprintf(text.data(), text.size(), "%.1f s", ms / 1000);
  } else if (whole < 3600) {
    std::snprintf(text.data(), text.size(), "%ldm%02lds", whole / 60, whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%ldh%02ldm", whole / 3600, whole / 60 % 60);
  }
  return text.data();
}

void History::Update(const core::GangStatus& status, Time born) {
  for (const auto& said : status.history) {
    if (said.generation.attempt != status.attempt) continue;
    auto place = std::lower_bound(generations_.begin(), generations_.end(), said.generation,
                                  [](const GenerationEntry& entry, const core::Generation& number) {
                                    return entry.generation < number;
                                  });
    if (place == generations_.end() || place->generation != said.generation) {
      place = generations_.insert(place, GenerationEntry{});
    }
    *place = said.Shifted(born);
  }
}

void History::LearnEnded(const std::vector<core::GenerationRecord>& ended, uint32_t attempt,
                         Time born) {
  std::vector<core::GenerationRecord> shifted;
  for (const core::GenerationRecord& each : ended) {
    if (each.generation.attempt == attempt) shifted.push_back(each.Shifted(born));
  }
  core::AddEnded(generations_, shifted);
}

void History::Cut(Time at, const core::Failure& failure) {
  if (generations_.empty() || generations_.back().ended) return;
  GenerationEntry& last = generations_.back();
  last.died = at;
  last.ended = at;
  last.failure = failure;
}

void History::Finish(Time at, core::Generation generation, const core::Failure& failure) {
  if (generations_.empty() || generations_.back().generation < generation) {
    if (!generation.exists()) return;
    generations_.emplace_back().generation = generation;
  }
  if (generations_.back().ended) return;
  generations_.back().ended = at;
  generations_.back().failure = failure;
}

Recovery History::RecoveryOf(size_t index, std::optional<Time> until) const {
  Recovery recovery;
  const GenerationEntry& entry = generations_[index];
  recovery.detect = Between(entry.died, entry.stop_sent);
  recovery.stop = Between(entry.stop_sent, entry.all_stopped);
  if (index + 1 == generations_.size()) return recovery;
  const GenerationEntry& next = generations_[index + 1];
  recovery.wait = Between(entry.all_stopped ? entry.all_stopped : entry.ended, next.announced);
  recovery.spawn = Between(next.announced, next.spawned);
  recovery.first_step = Between(next.spawned, next.first_step);
  recovery.respawn = Between(entry.died ? entry.died : entry.stop_sent, next.spawned);
  int64_t furthest = 0;
  for (size_t i = 0; i <= index; ++i) furthest = std::max(furthest, generations_[i].last_step);
  SetRedone(furthest, next, until, recovery);
  return recovery;
}

std::string WaitingFor(const core::GangStatus& gang) {
  using enum core::CoordinatorPhase;
  // Another generation follows in a moment.
  const bool restarts = gang.phase == core::GangPhase(kHeld) && !gang.history.empty() &&
                        gang.history.back().stop_reason == core::StopReason::kRestarted;
  if (restarts) return "";
  for (const core::CoordinatorPhase phase : {kBackoff, kHeld, kGathering, kVerdict, kDone}) {
    if (gang.phase == core::GangPhase(phase)) return gang.reason;
  }
  return "";
}

int64_t ProgressPrinter::RanksOf(const GenerationEntry& entry) const {
  return entry.members.empty() ? ranks_ : entry.members.size() * of_machine_;
}

std::vector<std::string> ProgressPrinter::NewLines(const History& history,
                                                   const std::string& waiting_for) {
  std::vector<std::string> lines;
  const auto& all = history.generations();
  while (true) {
    if (begins_told_ == ends_told_) {  // the next thing to tell is a beginning
      if (begins_told_ == all.size()) break;
      const GenerationEntry& entry = all[begins_told_];
      std::string name = "generation " + entry.generation.ToString();
      if (entry.spawned) {
        bool first = begins_told_ == 0;
        std::string how = Ranks(RanksOf(entry)) + " running";
        if (first) how += ", " + Brief(*entry.spawned - started_) + " after the start";
        if (!first) {
          Recovery recovery = history.RecoveryOf(begins_told_ - 1);
          how += " again";
          if (recovery.respawn) {
            how.append(" after ").append(Brief(*recovery.respawn)).append(Parts(recovery));
          }
        }
        lines.push_back(name.append(": ").append(how).append(ResumeOf(entry)));
      } else if (!entry.ended) {
        break;
      }
      ++begins_told_;
    }
    const GenerationEntry& entry = all[ends_told_];
    if (!entry.ended) break;
    bool has_next = ends_told_ + 1 < all.size();
    bool next_runs = has_next && all[ends_told_ + 1].spawned;
    bool next_never_ran = has_next && !next_runs && all[ends_told_ + 1].ended;
    if (next_runs) {
      const GenerationEntry& next = all[ends_told_ + 1];
      Recovery recovery = history.RecoveryOf(ends_told_);
      std::string line = EndOf(entry) + "; " + Ranks(RanksOf(next)) + " running again";
      if (recovery.respawn) line += " in " + Brief(*recovery.respawn) + Parts(recovery);
      lines.push_back(line + " as generation " + next.generation.ToString() + ResumeOf(next));
      ++begins_told_;
    } else if (!waiting_for.empty() || next_never_ran) {
      // That all went well, or that a stop is a stop, the job's own last line says.
      bool plain = entry.failure.cause == core::Cause::kNone ||
                   (entry.failure.cause == core::Cause::kStopRequested &&
                    entry.stop_reason != core::StopReason::kDraining &&
                    entry.stop_reason != core::StopReason::kRestarted);
      if (!plain) lines.push_back(EndOf(entry) + (waiting_for.empty() ? "" : "; " + waiting_for));
    } else {
      break;  // the next one runs in a moment: one line for both
    }
    ++ends_told_;
  }
  return lines;
}

}  // namespace lockstep::cli
