#include "core/gang/resume.h"

#include <algorithm>

#include "core/gang/rules.h"

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

uint32_t LaterAttempt(const std::vector<GenerationFile>& files, Generation self) {
  uint32_t later = 0;
  for (const GenerationFile& file : files) {
    if (file.generation >= self) later = std::max(later, file.generation.attempt);
  }
  return Holds(Rule::kLaterAttemptsCount) ? later : 0;
}

}  // namespace lockstep::core
