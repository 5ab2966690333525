// The names of a job's processes in sentences about failures.
#ifndef LOCKSTEP_CORE_TERMS_PROCESS_NAMES_H_
#define LOCKSTEP_CORE_TERMS_PROCESS_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/failure/failure.h"

namespace lockstep::core {

// The kind of process that an agent starts on its machine.
enum class ProcessKind : uint8_t {
  kRank,
  kMachine,   // one process for the whole machine, which starts its ranks or none
  kLauncher,  // on machine 0 a launcher; on the others what it asks for, by RUN
};

// `count` ranks in a row that have a role.
struct NamedRanks {
  std::string name;
  uint32_t first = 0;
  uint32_t count = 0;
};

struct ProcessNames {
  ProcessKind kind = ProcessKind::kRank;
  std::vector<NamedRanks> roles = {};  // of ranks; empty: all do the same work

  // "rank 3 on machine 1", "rank 3 (worker 1) on machine 1", "the process on machine 1"; of no rank
  // the agent's helper, "the PMIx server on machine 1".
  std::string Of(const Failure& death) const;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TERMS_PROCESS_NAMES_H_
