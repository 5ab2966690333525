// What the gang's parts on this machine are told of the agent's configuration.
#ifndef LOCKSTEP_WORKER_AGENT_GANG_GANG_CONFIG_H_
#define LOCKSTEP_WORKER_AGENT_GANG_GANG_CONFIG_H_

#include <cstdint>
#include <string>

#include "base/crypto/hkdf.h"
#include "base/result.h"
#include "core/gang/coordinator/coordinator.h"
#include "core/gang/member/member.h"
#include "core/plan/agent_config.h"

namespace lockstep::agent {

core::CoordinatorConfig ForCoordinator(const core::AgentConfig& config);
core::MemberConfig ForMember(const core::AgentConfig& config);

Result<Key> LoadKey(const core::AgentConfig& config);
// What no process but the gang's can know of a generation: 128 bits, in hexadecimal digits.
Result<std::string> SecretOf(const core::AgentConfig& config, core::Generation generation);

// Whether checkpoints are kept in memory, and how many other machines keep one, too.
// Whether agents keep versions of the program's code, which users sync.
bool SyncsCode(const core::AgentConfig& config);
bool KeepsMemory(const core::AgentConfig& config);
uint64_t MemoryCopies(const core::AgentConfig& config);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_GANG_CONFIG_H_
