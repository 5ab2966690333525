// Limits the rate of replacements: whatever makes machines look lost by the hundred, they are not
// replaced by the hundred. For all jobs of this operator; it begins anew with each.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_RATE_LIMITER_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_RATE_LIMITER_H_

#include <algorithm>
#include <cstddef>
#include <deque>

#include "base/time.h"

namespace lockstep::control {

class RateLimiter {
 public:
  // How many of `machines` may still be replaced now.
  int Allowed(size_t machines, Time now) {
    while (!recent_.empty() && recent_.front() <= now - kWindow) recent_.pop_front();
    const int most = std::max(kFewest, static_cast<int>(machines / kOneIn));
    return most - static_cast<int>(recent_.size());
  }
  void Replaced(int machines, Time now) {
    recent_.insert(recent_.end(), static_cast<size_t>(machines), now);
  }

 private:
  static constexpr Duration kWindow = minutes(1);
  static constexpr int kFewest = 10;  // however small the cluster
  static constexpr size_t kOneIn = 20;

  std::deque<Time> recent_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_RATE_LIMITER_H_
