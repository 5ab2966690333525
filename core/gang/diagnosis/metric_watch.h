// MetricWatch: finds values of figures that break a rule of failurePolicy.rules. Pure; each member
// has one and shows it every report of its ranks, because the coordinator hears of some only.
//
// A value is bad if it
//
//   is: NotFinite      is NaN or infinite
//   above: 10          is above 10, or not finite
//   risesBy: "3x"      is above 3 times the lowest value of the last `within` steps, or not finite
//
// The rule is broken if each value is bad over `for` steps. While values are bad, they do not count
// for the lowest value, and the last steps are those before the first bad one. If there is no value
// in them, a finite value is good. Each rank breaks a rule at most once in a generation.
//
// A checkpoint may be bad before a value shows it. If a rank has no good value in a generation
// under a rule whose action is RestartFromEarlier, its failure has the step of the checkpoint that
// the generation resumed from, in place of the first bad one.
#ifndef LOCKSTEP_CORE_GANG_DIAGNOSIS_METRIC_WATCH_H_
#define LOCKSTEP_CORE_GANG_DIAGNOSIS_METRIC_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/failure/failure.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::core {

// "loss was NaN at step 500": `failure` holds what was found, without machine and time.
struct BrokenRule {
  FailureAction action = FailureAction::kReport;
  Failure failure;
};

class MetricWatch {
 public:
  // A generation begins under these rules, each of which has a metric. It resumes from a checkpoint
  // of step `from`; 0: from the beginning, or not known.
  void Begin(std::vector<FailureRule> rules, int64_t from = 0);
  bool empty() const { return rules_.empty(); }
  // One report of a rank: the figures of this step, with those that are not finite.
  std::vector<BrokenRule> OnFigures(uint32_t rank, int64_t step,
                                    const std::vector<NamedFigure>& figures);
  // Values that are bad now, not yet over `for` steps, under rules with action RestartFromEarlier.
  // If the generation ends for another reason, its newest checkpoints may be bad.
  std::vector<Failure> Open() const;

 private:
  struct Sample {
    int64_t step = 0;
    double value = 0;
  };
  // One rank under one rule.
  struct State {
    std::deque<Sample> lowest;  // ascending in step and value; the first is the lowest
    int64_t bad_since = 0;      // the first bad step; 0: the last value was good
    double bad_value = 0;       // there
    int64_t last_step = 0;
    bool good = false;  // it had a good value in this generation
    bool broken = false;
  };
  static constexpr size_t kMostSamples = 4096;

  static bool IsBad(const FailureRule& rule, State& state, Sample sample);
  static void Remember(State& state, Sample sample);
  Failure FailureOf(uint32_t rank, size_t rule, const State& state) const;

  std::vector<FailureRule> rules_;
  int64_t from_ = 0;
  std::map<std::pair<uint32_t, size_t>, State> states_;  // by rank and rule
};

// "NaN", "infinity", "12.5".
std::string FigureText(double value);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_DIAGNOSIS_METRIC_WATCH_H_
