// GenerationLine: the rules by which the generations of a job form one line, wherever its commits
// lie. Each generation has a record that is created exclusively when it starts and names the commit
// that it resumes from (core/gang/protocol/resume.h). Derived classes read and write:
// CheckpointVolume in a folder, CheckpointBucket in an object store. All calls block.
#ifndef LOCKSTEP_WORKER_AGENT_STORAGE_GENERATION_LINE_H_
#define LOCKSTEP_WORKER_AGENT_STORAGE_GENERATION_LINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/gang/protocol/messages.h"
#include "core/gang/protocol/resume.h"

namespace lockstep::agent {

class GenerationLine {
 public:
  struct Begun {
    std::string resumes;  // the checkpoint to resume from; "": none
    // Not 0: nothing was begun, for other jobs have the numbers of this attempt up to this one.
    uint32_t taken = 0;
    // Not 0: nothing was begun, for this attempt of the job's machine 0 has begun this generation
    // or a later one.
    uint32_t later = 0;
    core::CheckpointId commit = {};  // that `resumes` is; none for what this job did not commit
    std::string skips = {};          // as in core::GenerationFile, and what follows
    uint32_t earlier = 0;
    // An earlier checkpoint was asked for. Nothing was begun, because there is none; or these
    // newer ones are left behind.
    bool none_earlier = false;
    std::vector<std::string> set_aside = {};
  };
  // Creates the generation's record and folder. Conflict if the record exists: its number was taken
  // by another coordinator. Invalid if there are other jobs' generations alone and `resume` is
  // Auto, which may mean them.
  // `earlier`: it resumes from an earlier checkpoint than the newest of the line.
  Result<Begun> BeginGeneration(
      core::Generation generation,
      const std::optional<core::EarlierRequest>& earlier = std::nullopt) const;

  const std::string& job_uid() const { return job_uid_; }

 protected:
  // `where`: for messages; `instead`: what a user can do if there are only checkpoints of another
  // job, as in "choose another checkpoint.path". `resume` is the job's checkpoint.resume: Auto,
  // Never or a path. The latter two apply to the first generation of `first_attempt` or later.
  GenerationLine(std::string where, std::string instead, std::string job_uid, std::string resume,
                 uint32_t first_attempt)
      : where_(std::move(where)),
        instead_(std::move(instead)),
        job_uid_(std::move(job_uid)),
        resume_(std::move(resume)),
        first_attempt_(first_attempt) {}
  ~GenerationLine() = default;
  GenerationLine(const GenerationLine&) = default;
  GenerationLine(GenerationLine&&) = default;
  GenerationLine& operator=(const GenerationLine&) = default;
  GenerationLine& operator=(GenerationLine&&) = default;

  struct Record {
    core::Generation generation;
    std::string job_uid;
    std::string resumes;
    std::string skips = {};  // as in core::GenerationFile
    uint32_t earlier = 0;
  };
  struct Generations {
    std::vector<core::GenerationFile> own;
    std::vector<core::Generation> others;
    std::string other_uid;                       // of one of them
    std::vector<core::Generation> silent;        // their records say nothing
    std::vector<core::CheckpointEntry> commits;  // if they come with the records
  };

 private:
  virtual Result<Generations> ReadGenerations() const = 0;
  virtual Result<std::vector<core::CheckpointEntry>> ReadCommits(
      const Generations& found, core::Generation generation) const = 0;
  // Whether the checkpoint that checkpoint.resume names is there.
  virtual Status CheckResume(const std::string& resume) const = 0;
  virtual Status MakeFolder(core::Generation generation) const = 0;
  // Exclusively: Conflict if there is a record of this generation.
  virtual Status Create(const Record& record) const = 0;
  virtual std::string PathOfRecord(core::Generation generation) const = 0;
  virtual std::string PathOfCommits(core::Generation generation) const = 0;

  std::string where_;
  std::string instead_;
  std::string job_uid_;
  std::string resume_;
  uint32_t first_attempt_ = 1;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_STORAGE_GENERATION_LINE_H_
