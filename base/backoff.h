// The pause before the next try of what failed: `first`, then twice as long with each failure in a
// row, at most `longest`. The caller adds jitter.
#ifndef LOCKSTEP_BASE_BACKOFF_H_
#define LOCKSTEP_BASE_BACKOFF_H_

#include <algorithm>

#include "base/time.h"

namespace lockstep {

constexpr Duration DoubledPause(Duration first, Duration longest, int doublings) {
  Duration pause = first;
  for (int i = 0; i < doublings && pause < longest; ++i) pause *= 2;
  return std::min(pause, longest);
}

// The same for one thing that is tried again and again.
class DoublingPause {
 public:
  constexpr DoublingPause(Duration first, Duration longest)
      : first_(first), longest_(longest), next_(first) {}

  Duration next() const { return next_; }
  // The pause to wait now; the one after it is twice as long.
  Duration Take() {
    const Duration pause = next_;
    next_ = DoubledPause(next_, longest_, 1);
    return pause;
  }
  void Reset() { next_ = first_; }
  void SetLongest() { next_ = longest_; }

 private:
  Duration first_;
  Duration longest_;
  Duration next_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_BACKOFF_H_
