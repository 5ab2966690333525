// EvidenceSignal: tells the machine's agent where this rank stands, when it asks by a signal, as
// worker/python/lockstep.py does for users' programs (worker/agent/evidence/armed_stacks.h): one
// line is appended to FOLDER/stacks/PID, FOLDER being that of LOCKSTEP_SOCKET, and the flight
// recorder stands in FOLDER/flight by then.
#ifndef LOCKSTEP_WORKER_TRAINER_LINK_EVIDENCE_SIGNAL_H_
#define LOCKSTEP_WORKER_TRAINER_LINK_EVIDENCE_SIGNAL_H_

#include <functional>
#include <string>
#include <thread>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::trainer {

class EvidenceSignal {
 public:
  // Writes what is known to `folder`, and says in a few words where the rank stands.
  using Record = std::function<Result<std::string>(const std::string& folder)>;

  // Blocks the signal in this thread and those it starts, so that none is interrupted by it: call
  // it before any.
  static void Block();

  // From here on it is answered, by a thread of its own; one in a process. Without an agent, or
  // where its folder cannot be used, nothing is.
  EvidenceSignal(const std::string& socket_path, Record record);
  ~EvidenceSignal();
  EvidenceSignal(const EvidenceSignal&) = delete;
  EvidenceSignal& operator=(const EvidenceSignal&) = delete;

 private:
  void Run();

  Record record_;
  std::string folder_;  // for the flight recorder
  UniqueFd file_;
  std::thread thread_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_LINK_EVIDENCE_SIGNAL_H_
