// The speed of the job and its expected end, from the steps that its ranks report.
#ifndef LOCKSTEP_CORE_GANG_DIAGNOSIS_PROGRESS_H_
#define LOCKSTEP_CORE_GANG_DIAGNOSIS_PROGRESS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/time.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::core {

// The job's step is the lowest step that a rank reports. Loss and named figures are means over the
// ranks that report them; known figures are sums or means, as their table says. If some rank
// reports, ranks whose steps are read from their output are left out. Printed rates are shown as
// the first rank prints them and never added, because a program may print a rank's rate or the
// job's.
struct GangProgress {
  int64_t step = 0;
  int64_t total_steps = 0;  // 0: not said
  std::optional<double> loss;
  double tokens_per_second = 0;  // of all ranks together; 0: not said
  KnownFigures known{};
  std::vector<NamedFigure> figures{};  // in the order of their names, at most kMaxNamedFigures
  StepSource source = StepSource::kReports;  // of the slowest rank's step
};
std::optional<GangProgress> Summarize(const std::vector<RankProgress>& ranks);

// Its loss, rates and known figures, as far as somebody said them, by the names that they have in
// status; then its named figures.
std::vector<NamedFigure> FiguresOf(const GangProgress& progress);

// Steps a second over the last kWindow. A restart goes back in steps, so the window begins anew.
class RateMeter {
 public:
  void Update(Time now, const GangProgress& progress);
  std::optional<double> steps_per_second() const;
  // Time until total_steps at this rate; nullopt while either is unknown, and at total_steps.
  std::optional<Duration> Remaining() const;

 private:
  static constexpr Duration kWindow = seconds(30);
  struct Sample {
    Time at{};
    int64_t step = 0;
  };
  std::deque<Sample> samples_;
  int64_t total_steps_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_DIAGNOSIS_PROGRESS_H_
