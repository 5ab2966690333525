// CheckpointVolume: the agent's part of the checkpoint folder (docs/guides/checkpoints.md).
//
//   generations/2-5                    made exclusively by machine 0's agent when 2-5 starts; names
//                                      the checkpoint that it resumes from
//   checkpoints/2-5/                   LOCKSTEP_CHECKPOINT_DIR: programs write here, under any name
//   checkpoints/2-5/000003.step-1200/  the third commit of 2-5, renamed to this after the yes
//   .lockstep/memory/2-5/1-4-7/        the seventh commit of 1-4, on its way from memory to 2-5
//
// All calls block on the file system: run them on the FileWorker. Holds no state but its paths.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_VOLUME_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_VOLUME_H_

#include <cstdint>
#include <string>

#include "base/result.h"
#include "core/gang/messages.h"

namespace lockstep::agent {

class CheckpointVolume {
 public:
  // `root` is absolute. `resume` is the job's checkpoint.resume: Auto, Never or a path. The latter
  // two apply to the first generation of `first_attempt` or later.
  CheckpointVolume(std::string root, std::string job_uid, std::string resume = "Auto",
                   uint32_t first_attempt = 1);

  struct Begun {
    std::string resumes;  // the checkpoint to resume from; "": none
    // Not 0: nothing was begun, for other jobs have the numbers of this attempt up to this one.
    uint32_t taken = 0;
    // Not 0: nothing was begun, for this attempt of the job's machine 0 has begun this generation
    // or a later one.
    uint32_t later = 0;
    core::CheckpointId commit = {};  // that `resumes` is; none for what this job did not commit
  };
  // Creates the generation's file and folder. Conflict if the generation's file exists: its number
  // was taken by another coordinator. Invalid if the folder holds other jobs' generations alone and
  // `resume` is Auto, which may mean them.
  Result<Begun> BeginGeneration(core::Generation generation) const;

  std::string CheckpointDir(core::Generation generation) const;
  // Where all machines lay their parts of checkpoint `id` in memory (memory/part_folder.h), until
  // it is whole and becomes commit `to`. Outside of the folders that programs write to.
  std::string PersistDir(core::CheckpointId to, core::CheckpointId id) const;
  // Conflict: two machines have a file of the same name with other content. Unavailable: the part
  // of one of so many machines is not there. Another gang of the job removed it, which is there
  // only when Kubernetes was told that this one is gone (docs/reference/limits.md).
  Status FinishPersisting(const std::string& work, core::CheckpointId to, const std::string& name,
                          uint32_t machines) const;
  // Such folders that nobody finished, in all generations of the job, but that one. They are moved
  // away first: who still writes there finds them gone.
  void RemoveUnfinished(const std::string& but) const;
  // Where commit `number` of this generation goes: .../000003.<name>.
  std::string FinalPath(core::Generation generation, uint32_t number,
                        const std::string& name) const;

 private:
  std::string root_;
  std::string job_uid_;
  std::string resume_;
  uint32_t first_attempt_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_VOLUME_H_
