// Claims: the namespaces of other operators, for the operator that works on all others.
//
// An operator of namespaces holds a Lease in each (docs/adr/037). No two clocks are compared: a
// Lease is over if it did not change for its own duration.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_CLAIMS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_CLAIMS_H_

#include <algorithm>
#include <map>
#include <string>

#include "base/time.h"
#include "operator/kube/views.h"

namespace lockstep::control {

// The Lease of the operator of a namespace, in that namespace.
inline constexpr char kClaimLease[] = "lockstep-jobs";
// The Lease of the operator of all other namespaces, in kube-system, which every cluster has.
inline constexpr char kClaimOfAllLease[] = "lockstep-all-jobs";
inline constexpr char kClaimOfAllNamespace[] = "kube-system";

class Claims {
 public:
  // This operator's name in claims. It also owns claims from earlier, when it had other namespaces.
  explicit Claims(std::string self) : self_(std::move(self)) {}

  void OnSeen(const kube::ClaimView& claim, Time now) {
    const Duration lasts = seconds(std::clamp<int64_t>(claim.seconds, 0, kLongest));
    claims_[claim.meta.name_space] = {claim.holder, now + lasts};
  }
  void OnGone(const std::string& name_space) { claims_.erase(name_space); }

  // Holders by namespace.
  std::map<std::string, std::string> Others(Time now) const {
    std::map<std::string, std::string> found;
    for (const auto& [name_space, claim] : claims_) {
      if (IsOthers(claim, now)) found[name_space] = claim.holder;
    }
    return found;
  }
  // When the next of them is over, unless it is seen again.
  Time NextEnd(Time now) const {
    Time next = kNever;
    for (const auto& [_, claim] : claims_) {
      if (IsOthers(claim, now)) next = std::min(next, claim.until);
    }
    return next;
  }

 private:
  static constexpr int64_t kLongest = int64_t{1} << 31;  // seconds

  struct Claim {
    std::string holder;
    Time until{};
  };

  bool IsOthers(const Claim& claim, Time now) const {
    return !claim.holder.empty() && claim.holder != self_ && now < claim.until;
  }

  const std::string self_;
  std::map<std::string, Claim> claims_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_CLAIMS_H_
