// Stacks that Python processes write by themselves. A process that is armed (lockstep.py, when it
// is imported) has made FOLDER/PID, which begins with the number of the descriptor that it holds of
// it, "7\n", and answers kEvidenceSignal by appending there where each of its threads stands.
//
// The signal ends a process that does not catch it. So it is sent only to one that catches it now,
// by the kernel's word, and whose descriptor is still that file: a program that has closed it and
// opened another file under its number would find the stacks there.
#ifndef LOCKSTEP_WORKER_AGENT_EVIDENCE_ARMED_STACKS_H_
#define LOCKSTEP_WORKER_AGENT_EVIDENCE_ARMED_STACKS_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"

namespace lockstep::agent {

inline constexpr int kEvidenceSignal = 51;  // lockstep.py names the same; no library is known to
inline constexpr size_t kMaxStacks = size_t{64} << 10;  // bytes of one process

// Of those among `pids` that are armed, the end of what they have written by `until`; files in
// `folder` of processes that are not alive are removed. It waits: not for the loop's thread.
std::map<pid_t, std::string> AskForStacks(const std::string& folder, const std::vector<pid_t>& pids,
                                          Time until);

// Removes the files of processes that are not alive.
void RemoveLeftoverStacks(const std::string& folder);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_EVIDENCE_ARMED_STACKS_H_
