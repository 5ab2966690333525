// What a user can do about the messages with which schedulers, kubelets and the API server say why
// a pod is not there or does not start: for status.reason. Pure functions over those messages,
// which stand in tests/operator/policy/advice_test.cc as their writers give them; "" for one that
// is not known, which is then shown alone.
#ifndef LOCKSTEP_OPERATOR_POLICY_ADVICE_H_
#define LOCKSTEP_OPERATOR_POLICY_ADVICE_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/text/quantity.h"

namespace lockstep::control {

// Of condition PodScheduled=False. `asked`: what a pod asks for of the LackingResource; `largest`:
// the most that one node has of each resource, empty where that is not known.
std::string AdviceOnScheduling(std::string_view message,
                               const std::optional<Quantity>& asked = std::nullopt,
                               const std::map<std::string, Quantity>& largest = {});
// Of which the scheduler found too little on some node, "nvidia.com/gpu"; "": of none.
std::string_view LackingResource(std::string_view message);
// Of a container that waits: state.waiting's reason and message.
std::string AdviceOnContainer(std::string_view reason, std::string_view message);
// Of a create that the API server forbids. `installer`: what init container lockstep-install asks
// for, by resource.
std::string AdviceOnRefusal(std::string_view message,
                            const std::map<std::string, std::string>& installer = {});

// Whether the image of such a container could not be had. The reason then alternates between two
// for as long as kubelet tries.
bool IsImageTrouble(std::string_view reason);

// "lead: message; advice" in at most `limit` bytes; the message gives way.
std::string Compose(std::string_view lead, std::string_view message, std::string_view advice,
                    size_t limit);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_POLICY_ADVICE_H_
