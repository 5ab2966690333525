// Reading a job from a file or from the command line, and showing what is wrong with it.
#ifndef LOCKSTEP_CLI_JOB_JOB_FILE_H_
#define LOCKSTEP_CLI_JOB_JOB_FILE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/spec.h"
#include "core/text/problem.h"
#include "core/validate/validate.h"

namespace lockstep::cli {

// The whole file, or standard input for "-". NotFound, Denied, Invalid (a directory), TooLarge.
Result<std::string> ReadTextFile(const std::string& path, size_t limit);

// What the command line says of a job: the whole job when there is no file, changes to it when
// there is one.
struct JobFlags {
  std::optional<int32_t> machines;
  std::optional<int32_t> processes;
  std::optional<int32_t> spares;
  std::string framework;  // names as in a job file; "" not said
  std::string launch;
  std::string bind;
  std::string prestart;
  std::string name;
  std::string checkpoint;
  std::string checkpoint_url;
  std::string resume;
  std::string console;
  std::string logs;
  std::optional<int32_t> max_restarts;
  std::optional<int32_t> max_machine_replacements;
  std::string grace_period;
  std::string hang_timeout;
  std::optional<int64_t> deadline_seconds;
  std::vector<std::string> env;      // NAME=VALUE
  std::vector<std::string> command;  // what stands behind --
};

struct LoadedJob {
  core::TrainingJob job;
  std::string file;  // as problems name it
  std::vector<core::Problem> problems;

  bool ok() const { return !core::HasErrors(problems); }
};

// The job of `file` ("" for none) with `flags` over it, validated for `target`. A job of this
// computer that has no name is named after its command. An Error when there is no document to speak
// of; else every problem stands in the result.
Result<LoadedJob> LoadJob(const std::string& file, const JobFlags& flags, core::Target target,
                          std::optional<int> gpus);

// Pure: the flags written over `job`; problems have paths such as "--framework".
std::vector<core::Problem> ApplyFlags(const JobFlags& flags, core::TrainingJob* job);

// A valid job name made of a command: "train" of {"python", "src/train.py"}.
std::string NameFromCommand(const std::vector<std::string>& command);

// The problems on standard error, as a compiler shows them, and how many there were.
void ShowProblems(const std::vector<core::Problem>& problems, const std::string& file);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_JOB_JOB_FILE_H_
