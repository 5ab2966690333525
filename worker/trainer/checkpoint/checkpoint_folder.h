// A folder that a checkpoint is written into: complete, or gone.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/result.h"
#include "worker/trainer/checkpoint/output_file.h"

namespace lockstep::trainer {

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string path) : path_(std::move(path)) {}
  // Removes what was written, unless Keep() was called.
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  // Makes the folder and its parents. A folder that a failed attempt left is reused, and counts as
  // incomplete from here on.
  Status Make();

  // Writes and syncs the file `name`, whose contents `fill` gives.
  Status Add(const std::string& name, const std::function<Status(OutputFile*)>& fill);
  Status Add(const std::string& name, const std::string& text);

  // Of what was added.
  const std::map<std::string, FileSum>& files() const { return files_; }

  // Syncs the folder and the one that holds it.
  Status Keep();

 private:
  std::string path_;
  std::string open_;  // the file that is being written
  std::map<std::string, FileSum> files_;
  bool kept_ = false;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_FOLDER_H_
