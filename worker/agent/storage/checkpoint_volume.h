// CheckpointVolume: the agent's part of the checkpoint folder (docs/guides/checkpoints.md).
//
//   generations/2-5                    made exclusively by machine 0's agent when 2-5 starts; names
//                                      the checkpoint that it resumes from
//   checkpoints/2-5/                   LOCKSTEP_CHECKPOINT_DIR: programs write here, under any name
//   checkpoints/2-5/000003.step-1200/  the third commit of 2-5, renamed to this after the yes
//   .lockstep/memory/2-5/1-4-7/        the seventh commit of 1-4, on its way from memory to 2-5
//
// All calls block on the file system: run them on the FileWorker. Holds no state but its paths. The
// rules of generations are those of GenerationLine.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_VOLUME_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_VOLUME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/gang/protocol/messages.h"
#include "worker/agent/storage/generation_line.h"

namespace lockstep::agent {

class CheckpointVolume final : public GenerationLine {
 public:
  // `root` is absolute. `resume` is the job's checkpoint.resume: Auto, Never or a path. The latter
  // two apply to the first generation of `first_attempt` or later.
  CheckpointVolume(std::string root, std::string job_uid, std::string resume = "Auto",
                   uint32_t first_attempt = 1);

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
  Result<Generations> ReadGenerations() const override;
  Result<std::vector<core::CheckpointEntry>> ReadCommits(
      const Generations& found, core::Generation generation) const override;
  Status CheckResume(const std::string& resume) const override;
  Status MakeFolder(core::Generation generation) const override;
  Status Create(const Record& record) const override;
  std::string PathOfRecord(core::Generation generation) const override;
  std::string PathOfCommits(core::Generation generation) const override {
    return CheckpointDir(generation);
  }

  std::string root_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_VOLUME_H_
