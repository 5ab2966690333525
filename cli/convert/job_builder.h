// JobBuilder: collects the fields of a TrainingJob, and remarks and problems, for the converters of
// other launchers' jobs. Finish() writes it all as YAML.
#ifndef LOCKSTEP_CLI_CONVERT_JOB_BUILDER_H_
#define LOCKSTEP_CLI_CONVERT_JOB_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/ascii.h"
#include "cli/convert/convert.h"
#include "core/model/spec.h"
#include "core/text/node.h"
#include "core/text/problem.h"

namespace lockstep::convert {

using core::Node;
using core::NodeMember;
using core::Position;

class JobBuilder {
 public:
  JobBuilder() { job.metadata.name = "converted"; }

  core::TrainingJob job;

  // Adds a comment at the top, for a setting that is not converted or whose conversion may
  // surprise.
  void Remark(std::string text) { remarks_.push_back(std::move(text)); }
  void Error(std::string path, Position position, std::string message);
  void SetEnv(std::string name, std::string value);

  // numMachines and processesPerMachine of a total, which must divide.
  void SetTotal(int64_t processes, int64_t machines, const std::string& what, Position position);
  void SetMachines(int64_t machines, const std::string& what, Position position);
  void SetProcesses(int64_t processes, const std::string& what, Position position);

  ConvertResult Finish() const;

 private:
  std::vector<std::string> remarks_;
  std::vector<core::Problem> problems_;
};

// A whole number at `key`, however it is quoted; absent when there is none, null, or no number.
std::optional<int64_t> IntegerAt(const Node& map, std::string_view key);
// A scalar's text at `key`; empty when there is none.
std::string TextAt(const Node& map, std::string_view key);
bool TrueAt(const Node& map, std::string_view key);

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words);

// Fills `builder` from one kind of source each. `is_total_said`: num_processes is the user's own.
void ConvertAccelerateConfig(const Node& config, bool is_total_said, JobBuilder& builder);
void ConvertPyTorchJob(const Node& document, JobBuilder& builder);
void ConvertTrainJob(const Node& document, JobBuilder& builder);
// `arguments` are those behind the launcher's own name; `python` runs the scripts.
void ConvertTorchrun(const std::vector<std::string>& arguments, const std::string& python,
                     JobBuilder& builder);
// `config` may be null.
void ConvertAccelerateLaunch(const std::vector<std::string>& arguments, const std::string& python,
                             const Node* config, JobBuilder& builder);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_JOB_BUILDER_H_
