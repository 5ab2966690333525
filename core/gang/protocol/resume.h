// Chooses the checkpoint that a generation resumes from. A paused program may rename a checkpoint
// into place long after its generation has ended, so the newest checkpoint cannot be trusted. The
// line of generation files decides: each is created exclusively at its generation's start and names
// the checkpoint that the generation resumed from.
#ifndef LOCKSTEP_CORE_GANG_PROTOCOL_RESUME_H_
#define LOCKSTEP_CORE_GANG_PROTOCOL_RESUME_H_

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/gang/protocol/messages.h"

namespace lockstep::core {

// `generations/<generation>` on the checkpoint volume.
struct GenerationFile {
  Generation generation;
  std::string resumes;  // the checkpoint it names; "" none
};

// A complete checkpoint, renamed into place.
struct CheckpointEntry {
  Generation generation;  // the generation that wrote it
  uint32_t number = 0;    // number of its commit in that generation, from 1
  std::string path;
};

// The checkpoint that `self` resumes from; "": none. It is the newest checkpoint of the highest
// generation file below `self`, else the checkpoint that this file names. A checkpoint that an
// older generation completes later is never read.
std::string ChooseResume(const std::vector<GenerationFile>& files,
                         const std::vector<CheckpointEntry>& checkpoints, Generation self);

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
