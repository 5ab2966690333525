#include "core/gang/resume.h"

namespace lockstep::core {

std::string ChooseResume(const std::vector<GenerationFile>& files,
                         const std::vector<CheckpointEntry>& checkpoints, Generation self) {
  const GenerationFile* before = nullptr;
  for (const GenerationFile& file : files) {
    if (file.generation < self && (!before || file.generation > before->generation)) {
      before = &file;
    }
  }
  if (!before) return "";
  const CheckpointEntry* newest = nullptr;
  for (const CheckpointEntry& checkpoint : checkpoints) {
    if (checkpoint.generation == before->generation &&
        (!newest || checkpoint.number > newest->number)) {
      newest = &checkpoint;
    }
  }
  return newest ? newest->path : before->resumes;
}

}  // namespace lockstep::core
