// PendingRestart: a user's request for a new generation, until one that is younger follows. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_PENDING_RESTART_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_PENDING_RESTART_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "core/gang/coordinator/desired_state.h"

namespace lockstep::core {

class PendingRestart {
 public:
  // The operator's latest word. True: machine 0's attempt `mine` must carry out the request. It
  // carries out no request to another attempt, and none twice.
  bool Take(const std::optional<DesiredState::Restart>& restart, uint32_t mine);
  // The request does not matter any more: the job ends.
  void Drop();
  // A commit was granted. The rank moves it to its final name before SIGTERM may come.
  void OnCommitGranted(Time now);
  // The request is carried out. False: there was none.
  bool Finish();

  // Null: no request waits or is under way.
  const DesiredState::Restart* asked() const { return asked_ ? &*asked_ : nullptr; }
  // When the commit that the request waited for is in place. kNever: no commit was granted.
  Time due() const { return due_; }
  // The id of the last request that was carried out; "": none.
  const std::string& done() const { return done_; }

 private:
  std::optional<DesiredState::Restart> asked_;
  std::string done_;
  Time due_ = kNever;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_PENDING_RESTART_H_
