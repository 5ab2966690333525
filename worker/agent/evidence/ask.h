// The other side of `{"evidence": true}` and `{"gang": true}`: asks a running agent, by the socket
// in its run folder, what its ranks are at, and how the gang is. Its folder is shut to other users:
// a user who can ask could also trace the ranks.
#ifndef LOCKSTEP_WORKER_AGENT_EVIDENCE_ASK_H_
#define LOCKSTEP_WORKER_AGENT_EVIDENCE_ASK_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::agent {

// The files that an agent answers with; no other is read.
inline std::string EvidenceFile(const std::string& run_dir) { return run_dir + "/evidence.json"; }
inline std::string GangFile(const std::string& run_dir) { return run_dir + "/gang.json"; }

// One line of JSON: {"job", "machine", "generation", "ranks": [{"rank", "place", "evidence"}]}. It
// waits up to 12 s.
Result<std::string> AskForEvidence(const std::string& run_dir);

// How the gang is, as machine 0's agent knows it.
struct GangNews {
  uint64_t version = 0;
  std::string text;  // one line of JSON: {"age", "gang"}; "": the version is still `after`
};
// `age` is in seconds since the birth of the agent that answers, `gang` as GET /status has it. It
// waits up to 12 s.
Result<GangNews> AskForGang(const std::string& run_dir, uint64_t after);

// Prints it, and with `follow` each change of it, at most 256 KiB a second, for kFollow, with a
// blank line every kBeat without one, so that a reader that is gone is noticed. Returns when the
// reader is gone.
inline constexpr Duration kFollow = minutes(10);
inline constexpr Duration kBeat = seconds(2);
Status PrintGang(const std::string& run_dir, bool follow);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_EVIDENCE_ASK_H_
