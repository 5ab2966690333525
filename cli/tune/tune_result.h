// What the trials of `lockstep tune` say together. Pure.
#ifndef LOCKSTEP_CLI_TUNE_TUNE_RESULT_H_
#define LOCKSTEP_CLI_TUNE_TUNE_RESULT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/json.h"
#include "base/time.h"
#include "cli/numa/statistics.h"
#include "cli/tune/tune_plan.h"

namespace lockstep::cli {

// How the work of a step depends on the number of ranks.
enum class StepWork : uint8_t {
  kPerProcess,  // each rank computes a batch of its own, as in data parallelism
  kGlobal,      // all ranks share one batch
};
// Which part of a run is measured.
struct StretchLimits {
  Duration warm_up = seconds(5);  // after the first step
  Duration length = seconds(20);
};

// Of one trial.
struct Stretch {
  double steps_per_second = 0;
  // of all ranks; only if the program reports it: what it prints may be a rank's
  std::optional<double> tokens_per_second;
};

// `series`: of a view (docs/internals/page.md), the program's progress over seconds. The rate is
// the slope of the line through all points of the stretch, because a point may come half a second
// late. Invalid says what is missing.
Result<Stretch> MeasureStretch(const Json& series, bool reported, const StretchLimits& limits);

inline constexpr size_t kFewestPoints = 4;  // of a stretch

// All trials of one setting.
struct TuneRow {
  TuneSetting setting;
  std::vector<Stretch> stretches;
  std::string failed;  // why a trial has no figure; the setting is then not tried again
  numa::Summary steps;
  numa::Summary work;  // in the report's unit
  std::optional<double> efficiency;
};

struct TuneReport {
  std::string unit;  // of work: "tokens/s", "steps/s", or "steps/s x ranks"
  std::vector<TuneRow> rows;
  std::optional<size_t> best;     // the most work, by the median
  std::optional<size_t> smaller;  // fewer ranks, and not shown to do less: intervals overlap
  uint64_t seed = 1;
  bool interrupted = false;
};

// Sums the stretches up. Efficiency is work for each rank, as a share of that of the setting with
// the fewest ranks that differs in nothing else.
TuneReport Conclude(std::vector<TuneRow> rows, StepWork work, uint64_t seed);

std::string TuneTable(const TuneReport& report);
OrderedJson TuneJson(const TuneReport& report);
// A page of its own, with a bar for each setting.
std::string TuneHtml(const TuneReport& report, const std::string& job);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_TUNE_TUNE_RESULT_H_
