// The other side of `{"evidence": true}`: asks a running agent, by the socket in its run folder,
// what its ranks are at. Its folder is shut to other users; whoever can ask could trace the ranks.
#ifndef LOCKSTEP_WORKER_AGENT_EVIDENCE_ASK_H_
#define LOCKSTEP_WORKER_AGENT_EVIDENCE_ASK_H_

#include <string>

#include "base/result.h"

namespace lockstep::agent {

// The file that an agent answers with; no other is read.
inline std::string EvidenceFile(const std::string& run_dir) { return run_dir + "/evidence.json"; }

// One line of JSON: {"job", "machine", "generation", "ranks": [{"rank", "place", "evidence"}]}. It
// waits up to 12 s.
Result<std::string> AskForEvidence(const std::string& run_dir);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_EVIDENCE_ASK_H_
