// Limits the rate of replacements: if hundreds of machines look lost for any reason, they are not
// replaced by the hundred. It covers all jobs of this operator, and begins anew with each operator.
//
// Fair by namespace: a namespace may have as many of a minute's replacements as remain after it, so
// that the next one finds some. One namespace gets half of the total, two get a third each, and so
// on.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_JOBS_RATE_LIMITER_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_JOBS_RATE_LIMITER_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>

#include "base/time.h"

namespace lockstep::control {

class RateLimiter {
 public:
  // How many of `machines`, of the whole cluster, may still be replaced now in `name_space`.
  int Allowed(const std::string& name_space, size_t machines, Time now) {
    while (!recent_.empty() && recent_.front().at <= now - kWindow) recent_.pop_front();
    int own = 0;
    int all = 0;
    for (const Replaced& each : recent_) {
      all += each.machines;
      if (each.name_space == name_space) own += each.machines;
    }
    const int free = std::max(kFewest, static_cast<int>(machines / kOneIn)) - all;
    return std::max((free - own + 1) / 2, 0);
  }
  void OnReplaced(const std::string& name_space, int machines, Time now) {
    if (machines > 0) recent_.push_back({name_space, machines, now});
  }

 private:
  struct Replaced {
    std::string name_space;
    int machines = 0;
    Time at{};
  };
  static constexpr Duration kWindow = minutes(1);
  static constexpr int kFewest = 20;  // however small the cluster
  static constexpr size_t kOneIn = 10;

  std::deque<Replaced> recent_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_JOBS_RATE_LIMITER_H_
