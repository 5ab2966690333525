// The flight recorders of a machine's ranks, as files for people: the built-in trainer's
// (rank-NNNNN.json, for `lockstep-trainer analyze`), which it writes to the agent's folder when it
// is asked for its stacks, and torch's (torch_flight_rank_N, for torchfrtrace), which torch writes
// by itself when an operation of NCCL is late, and when somebody writes to its pipe.
//
// torch's is a pickle, and what a program wrote is hostile in any case: files are copied, never
// read.
#ifndef LOCKSTEP_WORKER_AGENT_EVIDENCE_FLIGHT_FILES_H_
#define LOCKSTEP_WORKER_AGENT_EVIDENCE_FLIGHT_FILES_H_

#include <sys/stat.h>

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/agent/evidence/evidence.h"

namespace lockstep::agent {

inline constexpr size_t kMaxFlightFile = size_t{16} << 20;
inline constexpr size_t kMaxFlightFiles = 64;  // of a machine

struct FlightFile {
  std::string from;
  std::string name;  // what it is called in the evidence
};

class FlightSearch {
 public:
  // Notes where the ranks' processes, which may soon end, write to. Where torch's environment
  // variables name a pipe, a new file is asked for by it.
  FlightSearch(const std::vector<RankProcess>& ranks, const std::string& run_dir);

  // Waits until `until` for what was asked for. What is older than the process that would have
  // written it is left out.
  std::vector<FlightFile> Find(Time until);

 private:
  struct Candidate {
    FlightFile file;
    Duration since{};  // of the time of day: when its process began
    bool asked = false;
    struct stat before{};
    struct stat last{};
    Time changed{};
  };

  void Add(const std::string& from, const std::string& name, Duration since);
  void Ask(const std::string& pipe, const std::string& from);  // `from` was added

  std::vector<Candidate> candidates_;
  std::set<std::string> seen_;
};

// In one line, what could not be copied, and why; "" where all was.
std::string CopyFlightFiles(const std::vector<FlightFile>& files, const std::string& folder);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_EVIDENCE_FLIGHT_FILES_H_
