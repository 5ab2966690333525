// Chooses the checkpoint that a generation resumes from. A paused program may rename a checkpoint
// into place long after its generation has ended, so the newest checkpoint cannot be trusted. The
// line of generation files decides: each is created exclusively at its generation's start and names
// the checkpoint that the generation resumed from.
#ifndef LOCKSTEP_CORE_GANG_PROTOCOL_RESUME_H_
#define LOCKSTEP_CORE_GANG_PROTOCOL_RESUME_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/gang/protocol/messages.h"

namespace lockstep::core {

// `generations/<generation>` on the checkpoint volume.
struct GenerationFile {
  Generation generation;
  std::string resumes;     // the checkpoint it names; "" none
  std::string skips = {};  // steps whose data is left out from here on, as in LOCKSTEP_SKIP_STEPS
  uint32_t earlier = 0;    // generations up to this one that went on from an earlier checkpoint
};

// A complete checkpoint, renamed into place.
struct CheckpointEntry {
  Generation generation;  // the generation that wrote it
  uint32_t number = 0;    // number of its commit in that generation, from 1
  std::string path;
};

// The highest of `files` below `self`; null: none.
const GenerationFile* FileBefore(const std::vector<GenerationFile>& files, Generation self);

// The checkpoint that `self` resumes from; "": none. It is the newest checkpoint of the highest
// generation file below `self`, else the checkpoint that this file names. A checkpoint that an
// older generation completes later is never read.
std::string ChooseResume(const std::vector<GenerationFile>& files,
                         const std::vector<CheckpointEntry>& checkpoints, Generation self);

// What a generation must leave behind: a metric was bad from a step on.
struct EarlierRequest {
  int64_t before = 0;  // only a checkpoint of an earlier step will do
  // The data of the steps from the first to the last is left out. last below first: none.
  int64_t skip_first = 0;
  int64_t skip_last = -1;
};
struct EarlierCheckpoint {
  std::string path;      // "": the beginning
  bool missing = false;  // no checkpoint will do, and older ones were removed or have no step
  std::vector<std::string> set_aside;  // newer ones in the line, which stay but are not read again
};
// Whether a checkpoint's path lies in this job's folder of the generation.
using IsOwnPath = std::function<bool(const std::string& path, Generation generation)>;
// The newest checkpoint in the line of `self` whose name has a step before `before`. The line is
// that of ChooseResume, and then what each generation resumed from, while `is_own` holds. A
// checkpoint without a step in its name is passed over. The beginning is taken only if each
// checkpoint of the line is there and has a step in its name.
EarlierCheckpoint ChooseEarlier(const std::vector<GenerationFile>& files,
                                const std::vector<CheckpointEntry>& checkpoints, Generation self,
                                int64_t before, const IsOwnPath& is_own);

// The step in a checkpoint's name or path: the number behind the last "step", or else behind
// "checkpoint" or "iter", as in step-1200, global_step1200 and checkpoint-1200.
std::optional<int64_t> StepInName(std::string_view name);

// The commit in a checkpoint's path of any job, as in ".../2-4/000009.step-1100"; none for any
// other path.
CheckpointId CheckpointIdOf(std::string_view path);

// The name that the program gave the commit in such a path: "step-1100"; "" for any other path.
std::string CheckpointNameOf(std::string_view path);

// The parts of checkpoints in memory that each machine holds, by machine.
using Holdings = std::vector<std::vector<MemoryPart>>;

// The newest checkpoint in memory above `above` that is not in `unusable` and whose parts are all
// held by some machine; none if there is none.
CheckpointId NewestInMemory(const Holdings& holdings, const std::set<CheckpointId>& unusable,
                            CheckpointId above);

// A part that `machine` must fetch, and a machine that holds it.
struct FetchPlan {
  uint32_t machine = 0;
  uint32_t from = 0;
  MemoryPart part;
};
// The fetches after which each machine holds its part of `id`.
std::vector<FetchPlan> OwnPartsMissing(const Holdings& holdings, CheckpointId id);
// The fetches after which the next machine also holds each machine's part.
std::vector<FetchPlan> CopiesMissing(const Holdings& holdings, CheckpointId id);

// The highest attempt of `files` at or above `self`; 0: none. A machine 0 that finds one must not
// begin. It is an old machine 0, or its attempt comes from a status that went back (a restored
// etcd). It would ignore the commits of the later attempts.
uint32_t LaterAttempt(const std::vector<GenerationFile>& files, Generation self);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_PROTOCOL_RESUME_H_
