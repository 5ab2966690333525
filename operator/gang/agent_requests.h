// The operator's requests to an agent's port (docs/reference/protocol.md), as bytes of HTTP/1.1.
// Pure.
#ifndef LOCKSTEP_OPERATOR_GANG_AGENT_REQUESTS_H_
#define LOCKSTEP_OPERATOR_GANG_AGENT_REQUESTS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"

namespace lockstep::gang {

// Answered at once.
std::string GetStatusRequest();
// Answered when the version is above `after`, at the latest after `timeout` (whole seconds).
// `by_machine`: with GangStatus::by_machine.
std::string GetStatusRequest(uint64_t after, Duration timeout, bool by_machine = false);
std::string PutGangRequest(std::string_view body);

}  // namespace lockstep::gang

#endif  // LOCKSTEP_OPERATOR_GANG_AGENT_REQUESTS_H_
