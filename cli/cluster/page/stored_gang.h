// The gang of a TrainingJob as its status has it, in the form of the page's view (cli/ui/view.h).
// Pure.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_STORED_GANG_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_STORED_GANG_H_

#include <algorithm>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/wall_time.h"
#include "cli/run/output/history.h"
#include "core/status/status.h"

namespace lockstep::cli {

// Puts the times of documents on this process's clock. The API server's clock may be ahead of this
// computer's: what it has written has happened.
class DocumentClock {
 public:
  // Both are now.
  DocumentClock(Time now, WallTime wall) : offset_(now - wall.time_since_epoch()) {}

  // A document of `now` has this time.
  void Saw(WallTime at, Time now) { offset_ -= std::max(At(at) - now, Duration::zero()); }
  Time At(WallTime at) const { return at.time_since_epoch() + offset_; }

 private:
  Duration offset_;
};

// The latest time that the status has.
WallTime NewestIn(const core::JobStatus& status);

// The generations of status.history and the one after them. When a generation was announced is in
// no status: it is the time when all its ranks had been started.
std::vector<GenerationEntry> StoredGenerations(const core::JobStatus& status,
                                               const DocumentClock& clock);
// Both in their order. `told` is what machine 0 said, which is more of each.
std::vector<GenerationEntry> Merge(std::vector<GenerationEntry> stored,
                                   const std::vector<GenerationEntry>& told);

// The part `machines` of the view. A status names at most 100 machines, the worst; the others have
// the one state that is left, or "NotListed".
std::string StoredMachines(const core::JobStatus& status, int machines);
// By machine; "": not known.
std::vector<std::string> StoredNodes(const core::JobStatus& status, int machines);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_STORED_GANG_H_
