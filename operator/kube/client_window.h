// ClientWindow: the limit on concurrent requests. It is halved, at most once a round trip, when the
// server answers 429 or takes over a second, and grows by one with each window's worth of good
// answers. It keeps the operator from filling the server's queues for others.
#ifndef LOCKSTEP_OPERATOR_KUBE_CLIENT_WINDOW_H_
#define LOCKSTEP_OPERATOR_KUBE_CLIENT_WINDOW_H_

#include <algorithm>
#include <cstddef>

#include "base/time.h"

namespace lockstep::kube {

class ClientWindow {
 public:
  static constexpr size_t kMin = 4;
  static constexpr Duration kSlow = seconds(1);

  explicit ClientWindow(size_t max) : max_(static_cast<double>(std::max(max, kMin))), size_(max_) {}

  size_t size() const { return static_cast<size_t>(size_); }

  // An answer to a request that was sent at `sent`.
  void OnAnswer(Time sent, Time now, bool refused) {
    if (!refused && now - sent < kSlow) {
      size_ = std::min(max_, size_ + 1 / size_);
    } else if (sent >= shrunk_at_) {
      size_ = std::max(static_cast<double>(kMin), size_ / 2);
      shrunk_at_ = now;
    }
  }

 private:
  double max_;
  double size_;
  Time shrunk_at_ = Time(0);
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_CLIENT_WINDOW_H_
