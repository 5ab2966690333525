// Where checkpoints go, and which one a run goes on from.
//
// Under an agent docs/guides/checkpoints.md settles it: a generation writes into its own folder,
// commits through the agent, and resumes from the folder that the agent names. Without one a folder
// of the user's holds step-NNNNNNNN of one run after the other.
#ifndef LOCKSTEP_WORKER_TRAINER_SAVING_CHECKPOINT_LINE_H_
#define LOCKSTEP_WORKER_TRAINER_SAVING_CHECKPOINT_LINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/trainer/link/agent_link.h"

namespace lockstep::trainer {

class CheckpointLine {
 public:
  struct Options {
    std::string folder;      // the user's; or LOCKSTEP_CHECKPOINT_DIR's, with `committed`
    std::string resume;      // "auto", "never", or a folder. Under an agent: LOCKSTEP_RESUME_DIR
    bool committed = false;  // through the agent
    std::string memory{};    // where checkpoints in memory are written; empty: none are made
    int keep = 3;            // complete checkpoints to keep; 0: all
  };

  // `agent` outlives this.
  CheckpointLine(Options options, AgentLink& agent);

  bool writes() const { return !options_.folder.empty(); }
  bool in_memory() const { return !options_.memory.empty(); }

  // What to resume from, the newest first: each is tried when those before it are torn. Empty: from
  // nothing. `named`: the user named the first one, and nothing else will do.
  struct Candidates {
    std::vector<std::string> folders;
    bool named = false;
  };
  Result<Candidates> ToResumeFrom() const;

  // The folder to write the checkpoint of this step into. It does not count yet.
  std::string FolderFor(int64_t step) const;
  // The same in memory, of this machine's part. What is left there of another one, as of one that
  // was refused, is removed.
  std::string MemoryFolderFor(int64_t step) const;
  bool IsInMemory(const std::string& folder) const;
  // `folder`, complete and synced, counts from here on; its final place. Then RemoveOlder. In
  // memory it waits for the other machines' parts. From any thread.
  Result<std::string> Commit(const std::string& folder) const;
  // Keeps `keep` checkpoints of the line that ends with `newest`, a commit of this generation, and
  // as many that are in no line.
  void RemoveOlder(const std::string& newest) const;

  // Of the whole job, for what outlives generations: logs, evidence.
  std::string Root() const;

 private:
  Result<std::string> MoveTo(const std::string& folder, const std::string& final) const;

  Options options_;
  AgentLink* agent_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_SAVING_CHECKPOINT_LINE_H_
