// Advice for status.reason: what a user can do about a message of a scheduler, a kubelet or the API
// server that explains why a pod does not exist or start. Pure functions of those messages;
// tests/operator/policy/status/advice_test.cc has them verbatim. For an unknown message the advice
// is "", and the message is shown alone.
#ifndef LOCKSTEP_OPERATOR_POLICY_STATUS_ADVICE_H_
#define LOCKSTEP_OPERATOR_POLICY_STATUS_ADVICE_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/quantity.h"

namespace lockstep::control {

// For condition PodScheduled=False. `asked`: the pod's request of the LackingResource; `largest`:
// the most that one node has of each resource, empty if not known.
std::string AdviceOnScheduling(std::string_view message,
                               const std::optional<Quantity>& asked = std::nullopt,
                               const std::map<std::string, Quantity>& largest = {});
// The resource that the scheduler found too little of on some node, as in "nvidia.com/gpu"; "":
// none.
std::string_view LackingResource(std::string_view message);
// For a waiting container: reason and message of state.waiting.
std::string AdviceOnContainer(std::string_view reason, std::string_view message);
// For a create that the API server forbids. `installer`: requests of init container
// lockstep-install, by resource.
std::string AdviceOnRefusal(std::string_view message,
                            const std::map<std::string, std::string>& installer = {});

// Whether the image of such a container could not be pulled. The reason alternates between two
// while kubelet tries.
bool IsImageTrouble(std::string_view reason);

// "lead: message; advice" in at most `limit` bytes; the message is shortened if needed.
std::string Compose(std::string_view lead, std::string_view message, std::string_view advice,
                    size_t limit);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_STATUS_ADVICE_H_
