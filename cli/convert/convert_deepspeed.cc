// Command lines of deepspeed's launcher.
#include <algorithm>
#include <array>

#include "cli/convert/launcher_options.h"

namespace lockstep::convert {
namespace {

constexpr std::string_view kOwnMachines =
    "machines are nodes that Kubernetes chooses, and each has the GPUs it asks for: look at "
    "numMachines and processesPerMachine.";
constexpr std::string_view kNoSsh = "machines are started without ssh, pdsh or an MPI.";

constexpr auto kDeepSpeed = std::to_array<KnownOption>({
    {"num-nodes", 1, kUsed},
    {"num-gpus", 1, kUsed},
    {"hostfile H", 1, kUsed},
    {"module", 0, kUsed},
    {"no-python", 0, kUsed},
    {"no-local-rank", 0, kUsed},
    {"enable-each-rank-log", 1, kUsed},
    {"include i", 1, kOwnMachines, true},
    {"exclude e", 1, kOwnMachines, true},
    {"min-elastic-nodes max-elastic-nodes", 1,
     "the world keeps its size until `kubectl scale`, which stops at a step and continues.", true},
    {"elastic-training", 0, "the whole gang restarts in place (failurePolicy)."},
    {"master-port master-addr node-rank", 1, kGiven},
    {"launcher launcher-args ssh-port", 1, kNoSsh},
    {"no-ssh no-ssh-check force-multi", 0, kNothing},
    {"save-pid", 0, kNothing},
    {"log-level", 1, kNothing},
    {"venv-script", 1, "its setup belongs in the image."},
    {"autotuning", 1, "it starts its own jobs; run it without Lockstep."},
    {"bind-cores-to-rank", 0, kBinding},
    {"bind-core-list", 1, "write topology.bind: Map and topology.map."},
});

}  // namespace

void ConvertDeepSpeed(const std::vector<std::string>& arguments, const std::string& python,
                      Size size, JobBuilder& builder) {
  const size_t said_by_others = builder.error_count();
  const CommandLine line =
      ReadLauncherOptions(arguments, {"deepspeed", Style::kArgparse, kDeepSpeed}, {}, builder);
  if (builder.error_count() > said_by_others) return;
  bool says_gpus = size.per_machine.has_value();
  bool says_nodes = size.machines.has_value();
  size.total.reset();
  for (const Option& option : line.options) {
    if (option.name == "num-nodes") {
      size.machines = CountOf(option, {}, builder);
      says_nodes = true;
    } else if (option.name == "num-gpus") {
      size.per_machine = CountOf(option, {}, builder);
      says_gpus = true;
    } else if (option.name == "hostfile" && !says_nodes) {
      builder.RemarkHostfile(option.value);
    } else if (option.name == "enable-each-rank-log") {
      builder.job.spec.logs.path = option.value;
    }
  }
  builder.SetSize(size, "deepspeed", {});
  if (!says_gpus) {
    builder.Warn(
        "--num_gpus is not given, and deepspeed counts the GPUs where it runs: write "
        "processesPerMachine as a number.");
  }
  builder.job.spec.resources_per_process.gpu = 1;
  SetProgram(line,
             {.python = python,
              .is_module = Has(line, "module"),
              .no_python = Has(line, "no-python"),
              .passes_local_rank = !Has(line, "no-local-rank")},
             builder);
  builder.Remark("deepspeed restarts nothing; here " +
                 std::to_string(builder.job.spec.failure_policy.max_restarts) +
                 " restarts are allowed (failurePolicy.maxRestarts): the script must resume from "
                 "its checkpoint by itself.");
}

}  // namespace lockstep::convert
