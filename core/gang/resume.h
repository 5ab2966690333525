// Which checkpoint a generation resumes from. A paused program may rename a checkpoint into place
// long after its generation has ended, so the newest one is not to be trusted: what counts is the
// line of generation files, each created exclusively at its generation's start and naming the
// checkpoint that generation resumed from.
#ifndef LOCKSTEP_CORE_GANG_RESUME_H_
#define LOCKSTEP_CORE_GANG_RESUME_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/gang/messages.h"

namespace lockstep::core {

// `generations/<generation>` on the checkpoint volume.
struct GenerationFile {
  Generation generation;
  std::string resumes;  // the checkpoint it names; "" none
};

// A complete checkpoint: renamed into place.
struct CheckpointEntry {
  Generation generation;  // that wrote it
  uint32_t number = 0;    // of its commit in that generation, from 1
  std::string path;
};

// The checkpoint that `self` resumes from, "" for none: of the highest generation file below
// `self`, its own newest checkpoint, else the one it names. A checkpoint that an older generation
// completes later is never read.
std::string ChooseResume(const std::vector<GenerationFile>& files,
                         const std::vector<CheckpointEntry>& checkpoints, Generation self);

// The commit that a checkpoint's path names, of whatever job, ".../2-4/000009.step-1100"; none for
// any other path.
CheckpointId CheckpointIdOf(std::string_view path);

// What each machine holds of checkpoints in memory, by machine.
using Holdings = std::vector<std::vector<MemoryPart>>;

// The newest checkpoint in memory of which every machine's part is held by some machine, and which
// is not in `unusable`; none if there is none above `above`.
CheckpointId NewestInMemory(const Holdings& holdings, const std::set<CheckpointId>& unusable,
                            CheckpointId above);

// A part that `machine` is to get, and a machine that holds it.
struct FetchPlan {
  uint32_t machine = 0;
  uint32_t from = 0;
  MemoryPart part;
};
// So that each machine holds its part of `id`.
std::vector<FetchPlan> OwnPartsMissing(const Holdings& holdings, CheckpointId id);
// So that the next machine holds each machine's part as well.
std::vector<FetchPlan> CopiesMissing(const Holdings& holdings, CheckpointId id);

// The highest attempt of `files` at or above `self`; 0 for none. Whoever finds one must not begin:
// it is an old machine 0, or its attempt is of a status that went back (an etcd that was restored),
// and what the later ones committed would be passed over.
uint32_t LaterAttempt(const std::vector<GenerationFile>& files, Generation self);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_RESUME_H_
