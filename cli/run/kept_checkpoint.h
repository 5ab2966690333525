// Keeping the newest checkpoint in memory of a run that could not write it to the checkpoint
// folder: the folder that holds its parts is removed with the run.
#ifndef LOCKSTEP_CLI_RUN_KEPT_CHECKPOINT_H_
#define LOCKSTEP_CLI_RUN_KEPT_CHECKPOINT_H_

#include <cstdint>
#include <string>

#include "base/result.h"

namespace lockstep::cli {

struct KeptCheckpoint {
  std::string folder;  // machine-0/, machine-1/, ...: each machine's part
  std::string name;    // step-1200
};

// Moves the parts of all `machines`, whose agents have ended, to a new folder beside `run_folder`.
// NotFound: no checkpoint of which every part is in it.
Result<KeptCheckpoint> KeepCheckpoint(const std::string& run_folder, uint32_t machines);

// What a user does with it; `path` is the checkpoint folder.
std::string HowToUse(const KeptCheckpoint& kept, const std::string& path);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_KEPT_CHECKPOINT_H_
