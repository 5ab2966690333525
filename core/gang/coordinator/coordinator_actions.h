// What a coordinator wants done, and Outbox, in which it and its parts put that down in order.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_COORDINATOR_ACTIONS_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_COORDINATOR_ACTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/gang/protocol/messages.h"
#include "core/gang/protocol/resume.h"
#include "core/gang/roster/roster.h"
#include "core/terms/generation.h"

namespace lockstep::core {

struct SendTo {
  ConnectionId connection = 0;
  Message message;
};
// Close once what was sent has gone out.
struct CloseConnection {
  ConnectionId connection = 0;
  std::string reason;
};
// Find a free port, create `generations/<generation>` exclusively; answer with OnPrepared.
struct PrepareGeneration {
  Generation generation;
  // It resumes from an earlier checkpoint than the newest.
  std::optional<EarlierRequest> earlier = {};
};
// Find `count` ports in a row that are free on machine 0, others each time; answer with
// OnPortsFound.
struct FindPorts {
  Generation generation;
  uint32_t count = 0;
};
// Every part lies in the folder: it becomes commit `to`; answer with OnPersisted.
struct FinishPersisting {
  CheckpointId to;
  std::string name;
  CheckpointId id;
};
// The coordinator is done: its agent exits with `code`.
struct ExitCoordinator {
  int code = 0;
  std::string reason;
  uint32_t needs_epoch = 0;  // not 0: the next machine 0's attempt must be at least this
};
struct CoordinatorLog {
  std::string line;
};

using CoordinatorAction = std::variant<SendTo, CloseConnection, PrepareGeneration, FindPorts,
                                       FinishPersisting, ExitCoordinator, CoordinatorLog>;
using CoordinatorActions = std::vector<CoordinatorAction>;

class Outbox {
 public:
  // Nothing is sent to a machine that is not connected.
  void Send(const Roster::Slot& slot, Message message) {
    if (slot.connection != 0) Add(SendTo{slot.connection, std::move(message)});
  }
  void Log(std::string line) { Add(CoordinatorLog{std::move(line)}); }
  void Add(CoordinatorAction action) { actions_.push_back(std::move(action)); }
  CoordinatorActions Take() { return std::exchange(actions_, {}); }

  // Something that /status shows has changed.
  void Change() { ++version_; }
  uint64_t version() const { return version_; }

 private:
  CoordinatorActions actions_;
  uint64_t version_ = 1;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_COORDINATOR_ACTIONS_H_
