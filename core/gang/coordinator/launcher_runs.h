// LauncherRuns: the commands that a launcher on machine 0 (mpirun) starts through the agents of
// other machines, and whether its world was as large as the job. The coordinator owns it. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_LAUNCHER_RUNS_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_LAUNCHER_RUNS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/gang/coordinator/coordinator_actions.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/roster/roster.h"

namespace lockstep::core {

class LauncherRuns {
 public:
  // `launcher`: the job starts from one. Roster and outbox must outlive it.
  LauncherRuns(bool launcher, const Roster& roster, Outbox& outbox)
      : launcher_(launcher), roster_(roster), outbox_(outbox) {}

  void Begin();
  // `live`: the generation that `run` names is at work.
  void OnRun(const Roster::Slot& from, const Run& run, bool live);
  void OnRan(uint32_t machine, const Ran& ran);
  // Repeats the requests to this machine, because its last connection may have lost them.
  void AskAgain(const Roster::Slot& slot);
  // The launcher started a world of `size` ranks; the job has `wanted`.
  void OnWorld(int64_t size, int64_t wanted);

  // The first machine that the launcher never asked to run anything.
  std::optional<uint32_t> NeverAsked() const;
  // How the launcher's world was smaller than the job; "": nothing says that it was.
  std::string SmallerWorld() const;

 private:
  const bool launcher_;
  const Roster& roster_;
  Outbox& outbox_;
  std::map<uint64_t, Run> runs_;  // of this generation, that have not ended, by id
  std::set<uint32_t> asked_;      // machines, in this generation
  int64_t world_ = 0;             // the largest of this generation's launchers; 0: none was seen
  int64_t wanted_ = 0;
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_LAUNCHER_RUNS_H_
