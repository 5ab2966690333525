// Command lines of torchrun and `accelerate launch` as TrainingJobs.
#include <algorithm>
#include <array>
#include <initializer_list>

#include "cli/convert/job_builder.h"
#include "cli/convert/options.h"

namespace lockstep::convert {
namespace {

using ShortName = std::pair<std::string_view, std::string_view>;

constexpr std::array<std::string_view, 6> kTorchrunFlags = {
    "standalone", "module", "no_python", "run_path", "use_env", "virtual_local_rank"};
constexpr std::array<ShortName, 3> kTorchrunShort = {
    {{"m", "module"}, {"r", "redirects"}, {"t", "tee"}}};

constexpr std::array<std::string_view, 19> kAccelerateFlags = {"module",
                                                               "no_python",
                                                               "cpu",
                                                               "multi_gpu",
                                                               "tpu",
                                                               "use_deepspeed",
                                                               "use_fsdp",
                                                               "use_megatron_lm",
                                                               "use_xpu",
                                                               "ipex",
                                                               "same_network",
                                                               "debug",
                                                               "quiet",
                                                               "enable_cpu_affinity",
                                                               "use_parallelism_config",
                                                               "dynamo_use_fullgraph",
                                                               "dynamo_use_dynamic",
                                                               "dynamo_use_regional_compilation",
                                                               "downcast_bf16"};
constexpr std::array<ShortName, 2> kAccelerateShort = {{{"m", "module"}, {"q", "quiet"}}};

// nnodes: 4, or 2:4 of an elastic job.
void SetNodes(const std::string& text, JobBuilder& builder) {
  const size_t colon = text.find(':');
  const std::string most = colon == std::string::npos ? text : text.substr(colon + 1);
  const std::optional<int64_t> machines = ParseNumber<int64_t>(most);
  if (!machines) {
    builder.Error("--nnodes", {}, "\"" + text + "\" is no number of machines");
    return;
  }
  builder.SetMachines(*machines, "--nnodes", {});
  if (colon != std::string::npos && text.substr(0, colon) != most) {
    builder.Remark("--nnodes " + text + ": the job runs on " + most +
                   " machines always; it can't shrink yet.");
  }
}

// nproc_per_node: a number, or what torchrun counts where it runs.
void SetProcessesPerNode(const std::string& text, JobBuilder& builder) {
  if (const std::optional<int64_t> processes = ParseNumber<int64_t>(text)) {
    builder.SetProcesses(*processes, "--nproc-per-node", {});
  } else if (IsOneOf(text, {"gpu", "cpu", "auto", "xpu"})) {
    builder.Remark("--nproc-per-node " + text +
                   " is counted where torchrun runs: write processesPerMachine as a number.");
  } else {
    builder.Error("--nproc-per-node", {}, "\"" + text + "\" is no number of processes");
  }
}

void SetNumaBinding(const std::string& mode, JobBuilder& builder) {
  core::Bind& bind = builder.job.spec.topology.bind;
  if (mode == "socket") {
    bind = core::Bind::kSocket;
  } else if (mode == "exclusive") {
    bind = core::Bind::kExclusive;
  } else if (mode == "core-complex") {
    bind = core::Bind::kCoreComplex;
  } else if (mode != "node") {
    builder.Remark("--numa-binding " + mode +
                   " becomes topology.bind: Node, the closest there is.");
  }
}

void SetMaxRestarts(const std::string& text, const std::string& option, JobBuilder& builder) {
  const std::optional<int64_t> restarts = ParseNumber<int64_t>(text);
  constexpr int64_t kMost = 1'000'000;
  if (!restarts || *restarts < 0 || *restarts > kMost) {
    builder.Error(option, {}, "\"" + text + "\" is no number of restarts");
    return;
  }
  builder.job.spec.failure_policy.max_restarts = static_cast<int>(*restarts);
}

// What both launchers call the same and hand to torchrun. False: some other option.
bool CommonOption(const Option& option, JobBuilder& builder) {
  const std::string& name = option.name;
  if (name == "max_restarts") {
    SetMaxRestarts(option.value, "--max-restarts", builder);
  } else if (name == "log_dir") {
    builder.job.spec.logs.path = option.value;
  } else if (IsOneOf(name, {"tee", "redirects"})) {
    builder.Remark(
        "--" + name + " " + option.value +
        " is not carried over: both streams always go to the console, and to files under "
        "logs.path.");
  } else if (IsOneOf(name, {"rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf"})) {
    builder.Remark("--" + name + " " + option.value +
                   " is not carried over: the machines find each other by themselves.");
  } else if (name == "monitor_interval") {
    builder.Remark("--monitor_interval is not carried over: a process's end is noticed at once.");
  } else {
    return false;
  }
  return true;
}

void NoteDefaultRestarts(const CommandLine& line, const std::string& launcher,
                         JobBuilder& builder) {
  const bool said = std::any_of(line.options.begin(), line.options.end(),
                                [](const Option& option) { return option.name == "max_restarts"; });
  if (said) return;
  builder.Remark(launcher + " restarts nothing unless --max-restarts says so; here " +
                 std::to_string(builder.job.spec.failure_policy.max_restarts) +
                 " restarts are allowed (failurePolicy.maxRestarts).");
}

void TorchrunOption(const Option& option, JobBuilder& builder) {
  const std::string& name = option.name;
  if (name == "nnodes") {
    SetNodes(option.value, builder);
  } else if (name == "nproc_per_node") {
    SetProcessesPerNode(option.value, builder);
  } else if (name == "numa_binding") {
    SetNumaBinding(option.value, builder);
  } else if (name == "virtual_local_rank") {
    builder.job.spec.topology.gpu_visibility = core::GpuVisibility::kIsolated;
    builder.Remark(
        "--virtual-local-rank becomes topology.gpuVisibility: Isolated: each process sees its own "
        "GPUs alone, counted from 0, and its LOCAL_RANK is 0.");
  } else if (IsOneOf(name, {"node_rank", "master_addr", "master_port", "local_addr"})) {
    builder.Remark("--" + name + " " + option.value +
                   " is not carried over: every machine is given its own at each start.");
  } else if (!CommonOption(option, builder) &&
             !IsOneOf(name, {"standalone", "module", "no_python", "use_env"})) {
    builder.Remark("--" + name + (option.value.empty() ? "" : " " + option.value) +
                   " is not carried over.");
  }
}

// Puts the options of `accelerate launch` into its configuration, so that the same code converts
// both.
class LaunchConfig {
 public:
  explicit LaunchConfig(const Node* config) : config_(config == nullptr ? Node::Map() : *config) {}

  // False: no key of the configuration.
  bool Overlay(const Option& option) {
    const std::string& name = option.name;
    if (name == "cpu") {
      Set(config_, "use_cpu", "true");
    } else if (name == "multi_gpu") {
      Set(config_, "distributed_type", "MULTI_GPU");
    } else if (name == "use_fsdp") {
      Set(config_, "distributed_type", "FSDP");
    } else if (name == "use_deepspeed") {
      Set(config_, "distributed_type", "DEEPSPEED");
    } else if (name == "use_megatron_lm") {
      Set(config_, "distributed_type", "MEGATRON_LM");
    } else if (IsOneOf(name, {"num_processes", "num_machines", "machine_rank", "main_process_ip",
                              "main_process_port", "mixed_precision", "gpu_ids", "rdzv_backend",
                              "gradient_accumulation_steps"}) &&
               !IsDeepSpeedField(name)) {
      Set(config_, name, option.value);
    } else if (IsOneOf(name, {"debug", "enable_cpu_affinity"})) {
      Set(config_, name, "true");
    } else if (name.starts_with("dynamo_")) {
      Set(Section("dynamo_config"), name, option.value.empty() ? "true" : option.value);
    } else if (name.starts_with("fsdp_")) {
      Set(Section("fsdp_config"), name, option.value);
    } else if (name.starts_with("megatron_lm_")) {
      Set(Section("megatron_lm_config"), name, option.value);
    } else if (name.starts_with("parallelism_config_")) {
      Set(Section("parallelism_config"), name, option.value);
    } else if (name.starts_with("fp8_")) {
      Set(Section("fp8_config"), name, option.value);
    } else if (IsDeepSpeedField(name)) {
      Set(Section("deepspeed_config"), name, option.value);
    } else {
      return false;
    }
    return true;
  }

  // What the launcher would have guessed where nothing was said.
  const Node& Finish(bool any_cpu) {
    if (TextAt(config_, "distributed_type").empty()) {
      const bool several = IntegerAt(config_, "num_processes").value_or(1) > 1;
      Set(config_, "distributed_type", !several ? "NO" : any_cpu ? "MULTI_CPU" : "MULTI_GPU");
    }
    if (IntegerAt(config_, "num_processes").value_or(-1) < 1) {
      Set(config_, "num_processes",
          std::to_string(std::max<int64_t>(1, IntegerAt(config_, "num_machines").value_or(1))));
      guessed_processes_ = true;
    }
    return config_;
  }
  bool guessed_processes() const { return guessed_processes_; }

 private:
  static void Set(Node& map, const std::string& key, const std::string& value) {
    map.Erase(key);
    map.Add(key, Node::String(value));
  }

  Node& Section(const std::string& key) {
    Node* section = config_.Find(key);
    return section != nullptr && section->IsMap() ? *section : config_.Add(key, Node::Map());
  }

  bool IsDeepSpeedField(const std::string& name) const {
    if (name.starts_with("deepspeed_") || name.starts_with("zero") ||
        name.starts_with("offload_") || name == "gradient_clipping") {
      return true;
    }
    return name == "gradient_accumulation_steps" &&
           TextAt(config_, "distributed_type") == "DEEPSPEED";
  }

  Node config_;
  bool guessed_processes_ = false;
};

bool Has(const CommandLine& line, std::string_view name) {
  return std::any_of(line.options.begin(), line.options.end(),
                     [&](const Option& option) { return option.name == name; });
}

}  // namespace

void ConvertTorchrun(const std::vector<std::string>& arguments, const std::string& python,
                     JobBuilder& builder) {
  const CommandLine line = ReadOptions(arguments, {kTorchrunFlags, kTorchrunShort});
  for (const Option& option : line.options) TorchrunOption(option, builder);
  if (Has(line, "standalone")) builder.SetMachines(1, "--standalone", {});
  NoteDefaultRestarts(line, "torchrun", builder);
  SetProgram(line, python, Has(line, "module"), Has(line, "no_python"), builder);
}

void ConvertAccelerateLaunch(const std::vector<std::string>& arguments, const std::string& python,
                             const Node* config, JobBuilder& builder) {
  const CommandLine line = ReadOptions(arguments, {kAccelerateFlags, kAccelerateShort});
  LaunchConfig launch(config);
  for (const Option& option : line.options) {
    if (option.name == "config_file") {
      if (config != nullptr) continue;
      builder.Remark("--config_file " + option.value + " was not read and is not carried over.");
    } else if (option.name == "num_cpu_threads_per_process") {
      builder.SetEnv("OMP_NUM_THREADS", option.value);
    } else if (!launch.Overlay(option) && !CommonOption(option, builder) &&
               !IsOneOf(option.name, {"module", "no_python", "quiet", "same_network"})) {
      builder.Remark("--" + option.name + (option.value.empty() ? "" : " " + option.value) +
                     " is not carried over.");
    }
  }
  const Node& whole = launch.Finish(Has(line, "cpu"));
  if (launch.guessed_processes()) {
    builder.Remark(
        "--num_processes was not said, and `accelerate launch` counts the GPUs where it "
        "runs: write processesPerMachine as a number.");
  }
  ConvertAccelerateConfig(whole, !launch.guessed_processes(), builder);
  NoteDefaultRestarts(line, "`accelerate launch`", builder);
  SetProgram(line, python, Has(line, "module"), Has(line, "no_python"), builder);
}

}  // namespace lockstep::convert
