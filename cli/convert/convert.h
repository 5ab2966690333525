// Converts other launchers' jobs into a TrainingJob's YAML, with a `#` comment for each setting
// that could not be converted.
#ifndef LOCKSTEP_CLI_CONVERT_CONVERT_H_
#define LOCKSTEP_CLI_CONVERT_CONVERT_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/text/problem.h"

namespace lockstep::convert {

struct ConvertResult {
  std::string yaml;                     // a TrainingJob; empty when there are errors
  std::vector<core::Problem> problems;  // positions are those of the source
};

// Reads a file that a command line names.
using FileReader = std::function<Result<std::string>(const std::string& path)>;

// A file, told apart by what stands in it: accelerate's config, a batch script of SLURM, Kubeflow's
// PyTorchJob, TFJob, JAXJob, MPIJob (kubeflow.org/v1 and v2beta1) and TrainJob
// (trainer.kubeflow.org/v1alpha1), a RayJob (ray.io/v1).
ConvertResult Convert(std::string_view text, const FileReader& read = {});

// A command line: torchrun, accelerate launch, deepspeed, or their `python -m` forms, mpirun,
// horovodrun or srun.
ConvertResult Convert(const std::vector<std::string>& command, const FileReader& read = {});

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_CONVERT_H_
