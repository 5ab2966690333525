// RankMeter: seconds a step and seconds of waiting a step of each rank (or machine), from what
// successive statuses say of it. Pure.
//
// A rank's figures are those between the oldest and the newest of its last kMarks different steps.
// A rank that goes back in steps begins anew.
#ifndef LOCKSTEP_CLI_UI_RANK_METER_H_
#define LOCKSTEP_CLI_UI_RANK_METER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/time.h"

namespace lockstep::cli {

class RankMeter {
 public:
  static constexpr size_t kMarks = 12;

  struct Figures {
    std::optional<double> step_seconds;
    std::optional<double> wait_seconds;  // of those; unknown if the program reports no waits
  };
  // What one rank has done in its generation.
  struct Total {
    int64_t step = 0;
    int64_t waits = 0;  // steps with a known wait
    double waited = 0;  // seconds, of all of them
  };

  void Update(Time now, uint32_t rank, const Total& total);
  Figures Of(uint32_t rank) const;
  void Forget() { ranks_.clear(); }

 private:
  struct Mark {
    Time at{};
    Total total;
  };
  std::map<uint32_t, std::deque<Mark>> ranks_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_RANK_METER_H_
