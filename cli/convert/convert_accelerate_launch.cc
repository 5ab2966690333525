// Command lines of `accelerate launch` as TrainingJobs.
#include <algorithm>
#include <array>

#include "cli/convert/accelerate_keys.h"
#include "cli/convert/launcher_options.h"
#include "core/text/text.h"

namespace lockstep::convert {
namespace {

// Of every version from 0.27 to 1.15, but for those of accelerate_keys.h.
constexpr auto kAccelerate = std::to_array<KnownOption>({
    {"config-file", 1, kUsed},
    {"module m", 0, kUsed},
    {"no-python", 0, kUsed},
    {"cpu", 0, kUsed},
    {"multi-gpu", 0, kUsed},
    {"tpu", 0, kUsed},
    {"use-deepspeed", 0, kUsed},
    {"use-fsdp", 0, kUsed},
    {"use-megatron-lm", 0, kUsed},
    {"use-xpu", 0, kUsed},
    {"use-parallelism-config", 0, kNothing},
    {"ipex", 0, "install its needs in the image, and write its variables into env."},
    {"quiet q same-network", 0, kNothing},
    {"debug", 0, kUsed},
    {"enable-cpu-affinity", 0, kUsed},
    {"num-processes", 1, kUsed},
    {"num-machines", 1, kUsed},
    {"machine-rank", 1, kUsed},
    {"main-process-ip", 1, kUsed},
    {"main-process-port", 1, kUsed},
    {"mixed-precision", 1, kUsed},
    {"gpu-ids", 1, kUsed},
    {"num-cpu-threads-per-process", 1, kUsed},
    {"rdzv-backend", 1, kUsed},
    {"rdzv-conf", 1, kBySelf},
    {"max-restarts", 1, kUsed},
    {"log-dir", 1, kUsed},
    {"tee t", 1, kBothStreams},
    {"monitor-interval", 1, kAtOnce},
    {"role", 1, kNotHere},
    {"tpu-cluster", 0, kUsed},
    {"no-tpu-cluster tpu-use-sudo downcast-bf16", 0, kNothing},
    {"vm env", 1, "it is for TPUs."},
    {"main-training-function", 1, "the program runs as a whole."},
    {"aws-access-key-id aws-secret-access-key", 1, kNothing},
    {"mpirun-hostfile mpirun-ccl", 1, "every rank is started without mpirun.", true},
});

// Puts the options of `accelerate launch` into its configuration, so that the same code converts
// both.
class LaunchConfig {
 public:
  explicit LaunchConfig(const Node* config) : config_(config == nullptr ? Node::Map() : *config) {}

  void Overlay(const Option& option) {
    std::string name = option.name;
    std::replace(name.begin(), name.end(), '-', '_');
    if (const AccelerateKey* key = FindAccelerateKey(name)) {
      Set(Section(SectionName(key->section)), name, key->is_flag ? "true" : option.value);
    } else if (name == "cpu") {
      Set(config_, "use_cpu", "true");
    } else if (const std::string type = TypeOf(name); !type.empty()) {
      Set(config_, "distributed_type", type);
    } else {
      Set(config_, name, option.value.empty() ? "true" : option.value);
    }
  }

  // What the launcher would have guessed where nothing was said.
  const Node& Finish() {
    const std::string processes = TextAt(config_, "num_processes");
    if (TextAt(config_, "distributed_type").empty()) {
      const bool several = ParseNumber<int64_t>(processes).value_or(1) > 1;
      const bool on_cpu = TrueAt(config_, "use_cpu");
      Set(config_, "distributed_type", !several ? "NO" : on_cpu ? "MULTI_CPU" : "MULTI_GPU");
    }
    if (processes.empty() || processes == "-1") {
      const std::string machines = TextAt(config_, "num_machines");
      Set(config_, "num_processes", machines.empty() ? "1" : machines);
      guessed_processes_ = true;
    }
    return config_;
  }
  bool guessed_processes() const { return guessed_processes_; }

 private:
  static std::string TypeOf(std::string_view name) {
    if (name == "multi_gpu") return "MULTI_GPU";
    if (name == "use_fsdp") return "FSDP";
    if (name == "use_deepspeed") return "DEEPSPEED";
    if (name == "use_megatron_lm") return "MEGATRON_LM";
    if (name == "use_xpu") return "MULTI_XPU";
    return name == "tpu" || name == "tpu_cluster" ? "XLA" : "";
  }

  static void Set(Node& map, const std::string& key, const std::string& value) {
    map.Erase(key);
    map.Add(key, Node::String(value));
  }

  Node& Section(const std::string& key) {
    Node* section = config_.Find(key);
    if (section != nullptr && section->IsMap()) return *section;
    config_.Erase(key);
    return config_.Add(key, Node::Map());
  }

  Node config_;
  bool guessed_processes_ = false;
};

// The file of --config_file. Errors: it can't be read.
core::Document ReadConfig(const CommandLine& line, const FileReader& read, JobBuilder& builder) {
  core::Document config;
  for (const Option& option : line.options) {
    if (option.name != "config-file") continue;
    Result<std::string> text =
        read ? read(option.value) : Result<std::string>(Error::Invalid("it can't be read here"));
    if (!text.ok()) {
      builder.Error(
          option.said, {},
          text.error().message +
              "; run convert where the file is, or write its settings as options instead");
      continue;
    }
    config = core::ReadYaml(*text);
    for (const core::Problem& problem : config.problems) {
      builder.Error(option.value, {problem.line, problem.column}, problem.message);
    }
  }
  return config;
}

}  // namespace

void ConvertAccelerateLaunch(const std::vector<std::string>& arguments, const std::string& python,
                             const FileReader& read, JobBuilder& builder) {
  const size_t said_by_others = builder.error_count();
  const CommandLine line = ReadLauncherOptions(
      arguments, {"accelerate launch", Style::kWhole, kAccelerate, AccelerateKeyOptions()}, {},
      builder);
  const core::Document config = ReadConfig(line, read, builder);
  if (builder.error_count() > said_by_others) return;
  const Node* file = config.root ? &*config.root : nullptr;
  LaunchConfig launch(file);
  for (const Option& option : line.options) {
    if (option.name == "num-cpu-threads-per-process") {
      builder.SetEnv("OMP_NUM_THREADS", option.value);
    } else if (option.name == "max-restarts") {
      SetMaxRestarts(option, builder);
    } else if (option.name == "log-dir") {
      builder.job.spec.logs.path = option.value;
    } else if (!IsOneOf(option.name, {"config-file", "module", "no-python"})) {
      launch.Overlay(option);
    }
  }
  const Node& whole = launch.Finish();
  if (launch.guessed_processes()) {
    builder.Warn(
        "--num_processes is not given, and `accelerate launch` counts the GPUs where it runs, or "
        "takes what its default file (default_config.yaml) says: write processesPerMachine as a "
        "number.");
  }
  ConvertAccelerateConfig(
      {.whole = whole, .file = file, .is_total_said = !launch.guessed_processes()}, builder);
  NoteDefaultRestarts(line, "`accelerate launch`", builder);
  SetProgram(line,
             {.python = python,
              .is_module = Has(line, "module"),
              .no_python = Has(line, "no-python"),
              .by_torchrun = !IsOneOf(TextAt(whole, "distributed_type"), {"NO", "MULTI_CPU"})},
             builder);
}

}  // namespace lockstep::convert
