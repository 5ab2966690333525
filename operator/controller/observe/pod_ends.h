// Who caused the end of a pod: a table of the texts that kubelets (Kubernetes 1.33 to 1.36),
// container runtimes and controllers write into a pod that fails or does not start. Pure functions;
// docs/reference/pod-ends.md shows the table.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_POD_ENDS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_POD_ENDS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "operator/policy/facts/observation.h"

namespace lockstep::control {

struct PodEnd {
  // The field with the reason.
  enum class Of : uint8_t {
    kPod,        // status.reason
    kContainer,  // state.terminated.reason
    kWaiting,    // state.waiting.reason
  };
  enum class Sort : uint8_t {
    kLost,
    kAsked,         // the cluster asked the pod to leave
    kRefused,       // the node would not have it
    kMisaligned,    // likewise, because its resources are not on one NUMA node
    kOutOfMemory,   // it went over its memory limit
    kDoesNotStart,  // another node is tried after startTimeout
  };

  Of of = Of::kPod;
  std::string_view reason;  // "OutOf*" is every reason that begins so; "*" is any other
  std::string_view words;   // words in the message; "": any message
  Sort sort = Sort::kLost;
  Payer payer = Payer::kMachine;
};

// The first row that fits holds.
std::span<const PodEnd> PodEnds();
const PodEnd& FindPodEnd(PodEnd::Of of, std::string_view reason, std::string_view message);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_POD_ENDS_H_
