// History: every generation of a run, put together from what successive coordinators said, on this
// computer's one clock; and the lines that tell of it.
#ifndef LOCKSTEP_CLI_RUN_OUTPUT_HISTORY_H_
#define LOCKSTEP_CLI_RUN_OUTPUT_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/gang/status/status_api.h"

namespace lockstep::cli {

// Times are BootTime's; nullopt: has not happened, or nobody was left to say.
using GenerationEntry = core::GenerationRecord;

// From the event that ended one generation to the next one at work, in parts.
struct Recovery {
  std::optional<Duration> detect;      // until STOP was sent
  std::optional<Duration> stop;        // until every rank was dead
  std::optional<Duration> wait;        // until the next was announced: machines, backoff, fencing
  std::optional<Duration> spawn;       // until every rank was exec'ed
  std::optional<Duration> first_step;  // until a first step: the program's own share
  std::optional<Duration> respawn;     // the event until every rank was exec'ed
  std::optional<Duration> redone;      // in which the next one did steps that were done before
  std::optional<int64_t> redone_steps;
};

class History {
 public:
  // A coordinator's answer; `born` is when its agent started.
  void Update(const core::GangStatus& status, Time born);
  // Generations of machine 0's `attempt` that an agent's last message has, since `born`: those that
  // no answer reported as ended are added.
  void LearnEnded(const std::vector<core::GenerationRecord>& ended, uint32_t attempt, Time born);
  // Machine 0 ended: what its coordinator had running is over, because of `failure`.
  void Cut(Time at, const core::Failure& failure);
  // The job is over with `generation` ({0, 0}: unknown), perhaps before anybody could say so.
  void Finish(Time at, core::Generation generation, const core::Failure& failure);

  // What another put together, in the order of generations.
  void Replace(std::vector<GenerationEntry> generations) { generations_ = std::move(generations); }

  const std::vector<GenerationEntry>& generations() const { return generations_; }
  // Of generations()[index]; empty parts while the next has not come to them. `until`: now, if the
  // next one still runs.
  Recovery RecoveryOf(size_t index, std::optional<Time> until = std::nullopt) const;

 private:
  std::vector<GenerationEntry> generations_;  // in their order
};

// ProgressPrinter: says each beginning and end of a generation once, in lines without their ends.
class ProgressPrinter {
 public:
  // `ranks`: of all machines; `of_machine`: of one, for generations of some of them.
  ProgressPrinter(Time started, int64_t ranks, int64_t of_machine = 1)
      : started_(started), ranks_(ranks), of_machine_(of_machine) {}
  // `waiting_for`: why no generation runs, when none is about to; "" otherwise.
  std::vector<std::string> NewLines(const History& history, const std::string& waiting_for);

 private:
  Time started_;
  int64_t RanksOf(const GenerationEntry& entry) const;

  int64_t ranks_;
  int64_t of_machine_;
  size_t begins_told_ = 0;
  size_t ends_told_ = 0;
};

// Why no generation runs, when that will last; "" otherwise.
std::string WaitingFor(const core::GangStatus& gang);

// "6 ms", "1.3 s", "2m5s": for people.
std::string Brief(Duration duration);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_OUTPUT_HISTORY_H_
