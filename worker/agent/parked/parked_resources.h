// What parked interpreters (ParkedRanks) hold of the computer that its ranks may need: memory,
// which is judged against every limit around them and against the computer's own, and accelerators
// that one has opened. Read below `root`, of proc/ and sys/.
#ifndef LOCKSTEP_WORKER_AGENT_PARKED_PARKED_RESOURCES_H_
#define LOCKSTEP_WORKER_AGENT_PARKED_PARKED_RESOURCES_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/time.h"

namespace lockstep::agent {

class ParkedMemory {
 public:
  static constexpr Duration kLookAtMost = seconds(1);

  explicit ParkedMemory(std::string root) : root_(std::move(root)) {}

  // Whether one more parked interpreter fits; Unavailable says what it lacks.
  Status HasRoom() const;
  // The next parked interpreter will take what this one does, which is ready.
  void Update(pid_t interpreter);
  // For how long there is enough, however fast ranks fill it. Unavailable: parked interpreters have
  // to go.
  Result<Duration> Enough() const;

 private:
  std::string root_;
  // What the first one is thought to take; torch takes less, and a Trainer's imports more.
  uint64_t interpreter_bytes_ = uint64_t{256} << 20;
};

// A GPU or the like that a process has open: with it memory of that, which the rank is to have.
std::optional<std::string> OpenAccelerator(const std::string& root, pid_t pid);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PARKED_PARKED_RESOURCES_H_
