// The protocol between `lockstep run` and lockstep-agent on another computer, through ssh or srun,
// besides the agent's configuration (docs/reference/protocol.md). `lockstep-agent --facts` prints
// AgentFacts. `lockstep-agent --remote`, the far end, reads the configuration, a line, from its
// stdin, then orders, a line each; the end of its stdin means kKillOrder. Its stderr ends with the
// ending of the agent that it started. Pure.
#ifndef LOCKSTEP_CORE_PLAN_FAR_END_H_
#define LOCKSTEP_CORE_PLAN_FAR_END_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::core {

inline constexpr std::string_view kTerminateOrder = "TERM";
inline constexpr std::string_view kKillOrder = "KILL";

// A node, as its own agent sees it.
struct AgentFacts {
  std::string version;
  std::string address;          // the IP by which the caller reaches it
  std::vector<uint16_t> ports;  // on which nothing listens there

  friend bool operator==(const AgentFacts&, const AgentFacts&) = default;
};
std::string ToJson(const AgentFacts& facts);
// The last line of the program's output, because a login may print more.
Result<AgentFacts> ParseAgentFacts(std::string_view output);

// How an agent ended. Nothing that it started is alive.
struct AgentEnding {
  int exit_code = 0;
  int signal = 0;           // that killed it; 0: none
  std::string termination;  // the message that it left; "" for none

  friend bool operator==(const AgentEnding&, const AgentEnding&) = default;
};
std::string EndingLine(const AgentEnding& ending);
// nullopt: another line of an agent's stderr.
std::optional<AgentEnding> ParseEndingLine(std::string_view line);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_FAR_END_H_
