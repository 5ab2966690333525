// Spaces the jobs' writes of their steps, which are most of an operator's writes if many jobs run.
// A job that comes when the place is free writes at once. Every other job gets a turn, so that no
// job is passed over.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_JOBS_PROGRESS_TURNS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_JOBS_PROGRESS_TURNS_H_

#include <algorithm>
#include <optional>

#include "base/time.h"

namespace lockstep::control {

class ProgressTurns {
 public:
  using Turn = std::optional<Time>;  // a job's, where it waits

  bool MayTell(const Turn& turn, Time now) const { return now >= turn.value_or(free_); }

  // It wants to tell and may not yet.
  void Wait(Turn* turn, Time now) {
    if (!*turn) *turn = Take(now);
  }
  // It told, or had nothing to tell. A turn that came and was not used is lost.
  void Pass(bool told, Turn* turn, Time now) {
    if (told && !*turn) Take(now);
    if (told || (*turn && **turn <= now)) turn->reset();
  }

 private:
  static constexpr Duration kApart = milliseconds(50);

  Time Take(Time now) {
    const Time turn = std::max(free_, now);
    free_ = turn + kApart;
    return turn;
  }

  Time free_{};  // from when on a job that has no turn may tell
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_JOBS_PROGRESS_TURNS_H_
