// `lockstep debug`: where the ranks of a job stand, asked of each machine's agent, here or in pods.
#ifndef LOCKSTEP_CLI_PROGRAMS_EVIDENCE_H_
#define LOCKSTEP_CLI_PROGRAMS_EVIDENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cluster_command.h"
#include "cli/programs/ask.h"

namespace lockstep::cli {

// What one agent answered.
struct MachineEvidence {
  struct Rank {
    uint32_t rank = 0;
    std::string place;
    std::string evidence;
  };
  std::string job;
  uint32_t machine = 0;
  std::string generation;
  std::vector<Rank> ranks;
};

// Invalid for what no agent says. Texts stay as they came: programs wrote them.
Result<MachineEvidence> ParseEvidence(std::string_view json);

// Which evidence is shown.
struct EvidenceChoice {
  std::optional<int32_t> rank = std::nullopt;  // absent: of each
  bool kernel = false;                         // each thread's system call and kernel stack, too
};

// Which ranks wait where, and then the chosen evidence of each rank; fit for a terminal.
std::string EvidenceText(const std::vector<MachineEvidence>& machines,
                         const EvidenceChoice& choice);

// Asks all machines of all gangs, 16 at once, waits for each up to 40 s, and prints gang by gang.
// Machines that give no answer are reported; the exit code then is 1.
int AskAndShow(const std::vector<std::vector<Question>>& gangs, const EvidenceChoice& choice);

// Shows this user's runs on this computer: all, or those of the job that `command` names. Absent if
// no run has that name.
std::optional<int> DebugHere(const DebugCommand& command);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_PROGRAMS_EVIDENCE_H_
