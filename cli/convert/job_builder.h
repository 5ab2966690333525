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

// How many processes run where, as far as a launcher or what surrounds it says so.
struct Size {
  std::optional<int64_t> machines{};
  std::optional<int64_t> per_machine{};
  std::optional<int64_t> total{};
};

class JobBuilder {
 public:
  JobBuilder() { job.metadata.name = "converted"; }

  core::TrainingJob job;

  // Adds a comment at the top, for a setting that is not converted or whose conversion may
  // surprise.
  void Remark(std::string text) { remarks_.push_back(std::move(text)); }
  // A remark before all others, for what could make a wrong world without an error.
  void Warn(const std::string& text) { warnings_.push_back("LOOK AT THIS: " + text); }
  void Error(std::string path, Position position, std::string message);
  // The place of errors that know none.
  void StandAt(Position position) { here_ = position; }
  // Commands and values come from a Kubernetes object, which writes $(NAME) and $$ as a TrainingJob
  // does. Without it the program gets them letter by letter.
  void KeepReferences() { keeps_references_ = true; }
  // Takes the place of what was set before.
  void SetEnv(const std::string& name, const std::string& value);
  void SetCommand(const std::vector<std::string>& words);

  // numMachines and processesPerMachine of a total, which must divide.
  void SetTotal(int64_t processes, int64_t machines, const std::string& what, Position position);
  // As SetEnv, but what every process is given its own of is left out with a remark.
  void SetExport(const std::string& name, const std::string& value);

  void RemarkHostfile(const std::string& file);
  // A remark, if the job asks for no GPUs in the end, that a line of `launcher` can't ask for them.
  void RemarkNoGpus(const std::string& launcher) { asks_for_no_gpus_ = launcher; }

  // A total of processes wins over a number for each machine. Where only a total is known, they all
  // run on one machine, and a remark of `launcher` says so; a warning for srun, which would take as
  // many nodes as it needs.
  void SetSize(const Size& size, const std::string& launcher, Position position);
  void SetMachines(int64_t machines, const std::string& what, Position position);
  void SetProcesses(int64_t processes, const std::string& what, Position position);

  size_t error_count() const { return problems_.size(); }

  // The job as YAML. Errors: those that were added, or what `lockstep validate` says of the job for
  // a cluster, once it names an image.
  ConvertResult Finish() const;

 private:
  std::string Literal(const std::string& text) const;

  Position here_;
  bool keeps_references_ = false;
  std::string asks_for_no_gpus_;  // a launcher
  std::vector<std::string> warnings_;
  std::vector<std::string> remarks_;
  std::vector<core::Problem> problems_;
};

// A whole number at `key`, however it is quoted; `standard` when there is none, or null. An error
// where something else stands there.
int64_t CountAt(const Node& map, std::string_view key, int64_t standard, JobBuilder& builder);
// A scalar's text at `key`; empty when there is none.
std::string TextAt(const Node& map, std::string_view key);
bool TrueAt(const Node& map, std::string_view key);

bool IsOneOf(std::string_view text, std::initializer_list<std::string_view> words);

// What `accelerate launch` goes by.
struct AccelerateConfig {
  const Node& whole;          // the file's settings and the command line's
  const Node* file;           // those of the file alone; may be null
  bool is_total_said = true;  // num_processes is the user's own
};

// Fills `builder` from one kind of source each.
void ConvertAccelerateConfig(const AccelerateConfig& config, JobBuilder& builder);
void ConvertPyTorchJob(const Node& document, JobBuilder& builder);
void ConvertTrainJob(const Node& document, JobBuilder& builder);
void ConvertMpiJob(const Node& document, JobBuilder& builder);
void ConvertTfJob(const Node& document, JobBuilder& builder);
void ConvertJaxJob(const Node& document, JobBuilder& builder);
void ConvertRayJob(const Node& document, JobBuilder& builder);
// `arguments` are those behind the launcher's own name; `python` runs the scripts. `size`: the
// machine's GPUs are `size.per_machine`. `is_old`: torch.distributed.launch, which passes
// --local_rank.
void ConvertTorchrun(const std::vector<std::string>& arguments, const std::string& python,
                     const Size& size, bool is_old, JobBuilder& builder);
// `read` reads the file of --config_file.
void ConvertAccelerateLaunch(const std::vector<std::string>& arguments, const std::string& python,
                             const FileReader& read, JobBuilder& builder);

// `program`: the launcher's name or path, which the job goes on calling. `size`: what surrounds the
// launcher says, as a batch job's nodes and tasks.
void ConvertMpirun(const std::string& program, const std::vector<std::string>& arguments, Size size,
                   JobBuilder& builder);
void ConvertHorovodrun(const std::vector<std::string>& arguments, Size size, JobBuilder& builder);
void ConvertDeepSpeed(const std::vector<std::string>& arguments, const std::string& python,
                      Size size, JobBuilder& builder);
// A line of srun, as it stands in a shell.
void ConvertSrun(const std::vector<std::string>& command, const FileReader& read,
                 JobBuilder& builder);
// A script with #SBATCH lines.
void ConvertSbatch(std::string_view text, const FileReader& read, JobBuilder& builder);
bool IsSbatch(std::string_view text);

// Converts a command that begins with torchrun, accelerate, deepspeed, mpirun or horovodrun, or a
// Python that runs one as a module. False: it begins with none of them.
bool ConvertLauncher(const std::vector<std::string>& command, const Size& size,
                     const FileReader& read, JobBuilder& builder);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_JOB_BUILDER_H_
