// CheckpointBucket: a job's generations and commits in an object store
// (docs/adr/069-checkpoints-in-an-object-store.md). It is what CheckpointVolume is for a folder,
// for checkpoints that come from the machines' memory: ranks cannot write there. All calls block.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_BUCKET_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_BUCKET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "worker/agent/storage/generation_line.h"
#include "worker/agent/storage/object_store.h"

namespace lockstep::agent {

class CheckpointBucket final : public GenerationLine {
 public:
  struct Limits {
    // Commits of a job that Prune leaves: the newest, and of older ones one in each interval (0:
    // none).
    int32_t keep = 3;
    Duration every = Duration::zero();
    int64_t upload_bandwidth = 0;  // bytes a second of WritePart; 0: no limit
  };

  // `store` outlives it. `resume` is Auto or Never.
  CheckpointBucket(ObjectStore* store, std::string job_uid, std::string resume,
                   uint32_t first_attempt, Limits limits);

  // Uploads one machine's part of commit `to`, which lies in `folder`.
  Status WritePart(core::CheckpointId to, const std::string& name, uint32_t machine,
                   const std::string& folder) const;
  // Makes it a commit, if the parts of so many machines are there. Conflict: two machines have a
  // file of the same name with other content, or a later generation has begun.
  Status FinishPersisting(core::CheckpointId to, const std::string& name, uint32_t machines) const;
  // Deletes what Limits does not keep, once `generation` has a commit.
  Status Prune(core::Generation generation) const;
  // Makes `folder` what `part` is in the store, of at most `limit` bytes; the whole checkpoint if
  // it was written by another number of machines.
  Status FetchPart(const core::MemoryPart& part, uint32_t machines, const std::string& folder,
                   uint64_t limit) const;

 private:
  Result<Generations> ReadGenerations() const override;
  Result<std::vector<core::CheckpointEntry>> ReadCommits(
      const Generations& found, core::Generation generation) const override;
  Status CheckResume(const std::string& resume) const override;
  Status MakeFolder(core::Generation /*generation*/) const override { return {}; }
  Status Create(const Record& record) const override;
  std::string PathOfRecord(core::Generation generation) const override;
  std::string PathOfCommits(core::Generation generation) const override;

  ObjectStore* store_;
  Limits limits_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_CHECKPOINT_BUCKET_H_
