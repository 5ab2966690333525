// Command lines of torchrun, and of torch.distributed.launch, as TrainingJobs.
#include <algorithm>
#include <array>

#include "cli/convert/launcher_options.h"

namespace lockstep::convert {
namespace {

constexpr auto kTorchrun = std::to_array<KnownOption>({
    {"nnodes", 1, kUsed},
    {"nproc-per-node", 1, kUsed},
    {"standalone", 0, kUsed},
    {"module m", 0, kUsed},
    {"no-python", 0, kUsed},
    {"use-env", 0, kUsed},
    {"max-restarts", 1, kUsed},
    {"log-dir", 1, kUsed},
    {"numa-binding", 1, kUsed},
    {"virtual-local-rank", 0, kUsed},
    {"node-rank master-addr master-port local-addr", 1, kGiven},
    {"rdzv-backend rdzv-endpoint rdzv-id rdzv-conf", 1, kBySelf},
    {"redirects r tee t", 1, kBothStreams},
    {"monitor-interval", 1, kAtOnce},
    {"local-ranks-filter", 1, "logs.console sets what the console shows."},
    {"start-method", 1, kNothing},
    {"signals-to-handle", 1, "a stop sends SIGTERM to every rank."},
    {"event-log-handler logs-specs role shutdown-timeout", 1, kNotHere},
    {"duplicate-stdout-filters duplicate-stderr-filters", 1, kBothStreams},
    {"run-path", 0, kNothing},
});

// Of every version from 0.27 to 1.15. Those that are kUsed are keys of its configuration, too.
// nnodes: 4, or 2:4 of an elastic job.
void SetNodes(const Option& option, JobBuilder& builder) {
  const std::string& text = option.value;
  const size_t colon = text.find(':');
  const std::string most = colon == std::string::npos ? text : text.substr(colon + 1);
  const std::optional<int64_t> machines = ParseNumber<int64_t>(most);
  if (!machines) {
    builder.Error(option.said, {}, "\"" + text + "\" is not a number of machines");
    return;
  }
  builder.SetMachines(*machines, option.said, {});
  if (colon != std::string::npos && text.substr(0, colon) != most) {
    builder.Remark(option.said + " " + text + ": the job runs on " + most +
                   " machines always; see spec.elastic to let it shrink.");
  }
}

// nproc-per-node: a number, or what torchrun counts where it runs.
void SetProcessesPerNode(const Option& option, const std::optional<int64_t>& gpus,
                         JobBuilder& builder) {
  const std::string& text = option.value;
  const bool counts_gpus = IsOneOf(text, {"gpu", "auto"});
  if (text == "gpu") builder.job.spec.resources_per_process.gpu = 1;
  if (const std::optional<int64_t> processes = ParseNumber<int64_t>(text)) {
    builder.SetProcesses(*processes, option.said, {});
  } else if (counts_gpus && gpus && *gpus > 0) {
    builder.SetProcesses(*gpus, option.said, {});
  } else if (counts_gpus || IsOneOf(text, {"cpu", "xpu"})) {
    builder.Warn(option.said + " " + text +
                 " is counted where torchrun runs: write processesPerMachine as a number.");
  } else {
    builder.Error(option.said, {}, "\"" + text + "\" is not a number of processes");
  }
}

void SetNumaBinding(const Option& option, JobBuilder& builder) {
  core::Bind& bind = builder.job.spec.topology.bind;
  const std::string& mode = option.value;
  if (mode == "socket") {
    bind = core::Bind::kSocket;
  } else if (mode == "exclusive") {
    bind = core::Bind::kExclusive;
  } else if (mode == "core-complex") {
    bind = core::Bind::kCoreComplex;
  } else if (mode != "node") {
    builder.Remark(option.said + " " + mode +
                   " becomes topology.bind: Node, the closest there is.");
  }
}

void TorchrunOption(const Option& option, const Size& size, JobBuilder& builder) {
  const std::string& name = option.name;
  if (name == "nnodes") {
    SetNodes(option, builder);
  } else if (name == "nproc-per-node") {
    SetProcessesPerNode(option, size.per_machine, builder);
  } else if (name == "numa-binding") {
    SetNumaBinding(option, builder);
  } else if (name == "max-restarts") {
    SetMaxRestarts(option, builder);
  } else if (name == "log-dir") {
    builder.job.spec.logs.path = option.value;
  } else if (name == "virtual-local-rank") {
    builder.job.spec.topology.gpu_visibility = core::GpuVisibility::kIsolated;
    builder.Remark(
        "--virtual-local-rank becomes topology.gpuVisibility: Isolated: each process sees its own "
        "GPUs alone, counted from 0, and its LOCAL_RANK is 0.");
  }
}

}  // namespace

void SetMaxRestarts(const Option& option, JobBuilder& builder) {
  const std::optional<int64_t> restarts = CountOf(option, {}, builder, 0);
  if (restarts) builder.job.spec.failure_policy.max_restarts = static_cast<int>(*restarts);
}

void NoteDefaultRestarts(const CommandLine& line, const std::string& launcher,
                         JobBuilder& builder) {
  if (Has(line, "max-restarts")) return;
  builder.Remark(launcher + " restarts nothing without --max-restarts; here " +
                 std::to_string(builder.job.spec.failure_policy.max_restarts) +
                 " restarts are allowed (failurePolicy.maxRestarts).");
}

CommandLine ReadTorchrunOptions(const std::vector<std::string>& arguments, JobBuilder& builder) {
  return ReadLauncherOptions(arguments, {"torchrun", Style::kArgparse, kTorchrun}, {}, builder);
}

void ConvertTorchrun(const std::vector<std::string>& arguments, const std::string& python,
                     const Size& size, bool is_old, JobBuilder& builder) {
  const size_t said_by_others = builder.error_count();
  const CommandLine line = ReadTorchrunOptions(arguments, builder);
  if (builder.error_count() > said_by_others) return;
  for (const Option& option : line.options) TorchrunOption(option, size, builder);
  if (Has(line, "standalone")) builder.SetMachines(1, "--standalone", {});
  NoteDefaultRestarts(line, "torchrun", builder);
  builder.RemarkNoGpus("torchrun");
  SetProgram(line,
             {.python = python,
              .is_module = Has(line, "module"),
              .no_python = Has(line, "no-python"),
              .passes_local_rank = is_old && !Has(line, "use-env"),
              .by_torchrun = true},
             builder);
}

}  // namespace lockstep::convert
