// Converts accelerate's configuration (`accelerate config`). Settings become the environment
// variables that `accelerate launch` would set; keys that it ignores get a remark.
#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>

#include "cli/convert/job_builder.h"

namespace lockstep::convert {
namespace {

std::string UpperCase(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper;
}

std::string_view WithoutPrefix(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

// As accelerate writes a value into the environment.
std::string EnvValue(const Node& node) {
  if (node.IsList()) {
    std::string joined;
    for (const Node& item : node.items()) joined += (joined.empty() ? "" : ",") + item.text();
    return joined;
  }
  return node.text();
}

// The value that `accelerate launch` gives a variable when nothing is said.
struct Default {
  std::string_view name;
  const char* value;
};

constexpr std::array<Default, 11> kFsdpDefaults = {{
    {"VERSION", "1"},
    {"SHARDING_STRATEGY", "FULL_SHARD"},
    {"RESHARD_AFTER_FORWARD", "true"},
    {"OFFLOAD_PARAMS", "false"},
    {"MIN_NUM_PARAMS", "100000000"},
    {"FORWARD_PREFETCH", "false"},
    {"USE_ORIG_PARAMS", "true"},
    {"CPU_RAM_EFFICIENT_LOADING", "true"},
    {"SYNC_MODULE_STATES", "true"},
    {"ACTIVATION_CHECKPOINTING", "false"},
    {"ACTIVATION_CHECKPOINTING_OFFLOAD", "false"},
}};

class Converter {
 public:
  Converter(const Node& config, bool is_total_said, JobBuilder& builder)
      : config_(config), is_total_said_(is_total_said), builder_(builder) {}

  void Convert() {
    builder_.job.spec.framework = core::Framework::kAccelerate;
    if (!CheckType()) return;
    Size();
    Gpus();
    Scalars();
    Dynamo();
    Section("fsdp_config", &Converter::Fsdp);
    Section("deepspeed_config", &Converter::DeepSpeed);
    Section("megatron_lm_config", &Converter::Megatron);
    Section("parallelism_config", &Converter::Parallelism);
    Section("fp8_config", &Converter::Fp8);
    Honoured();
    Ignored();
    Rest();
  }

 private:
  Position At(std::string_view key) const {
    const Node* node = config_.Find(key);
    return node == nullptr ? config_.position() : node->position();
  }

  bool CheckType() {
    type_ = TextAt(config_, "distributed_type");
    if (TextAt(config_, "compute_environment") == "AMAZON_SAGEMAKER") {
      builder_.Error("compute_environment", At("compute_environment"),
                     "a SageMaker configuration has no machines of its own; make one for "
                     "LOCAL_MACHINE with `accelerate config`");
      return false;
    }
    if (IsOneOf(type_, {"XLA", "TPU"})) {
      builder_.Error("distributed_type", At("distributed_type"),
                     "TPUs start their processes inside one program; a TrainingJob can't");
      return false;
    }
    if (type_ == "NO" && IntegerAt(config_, "num_machines").value_or(1) > 1) {
      builder_.Error(
          "distributed_type", At("distributed_type"),
          "NO with several machines would train one model on each, alone; write MULTI_GPU "
          "or MULTI_CPU");
      return false;
    }
    return true;
  }

  void Size() {
    const int64_t machines = IntegerAt(config_, "num_machines").value_or(1);
    int64_t processes = IntegerAt(config_, "num_processes").value_or(type_ == "NO" ? 1 : -1);
    if (type_ == "NO" && processes < 1) processes = 1;
    builder_.SetTotal(processes, machines, "num_processes", At("num_processes"));
    if (is_total_said_ && machines > 1) RemarkOnTotal(processes, machines);
  }

  // A number that divides evenly can be the total or per machine; only the user knows which.
  void RemarkOnTotal(int64_t processes, int64_t machines) {
    builder_.Remark(
        "num_processes " + std::to_string(processes) + " is the total of all " +
        std::to_string(machines) + " machines, as accelerate counts it: processesPerMachine: " +
        std::to_string(processes / machines) + ". Were " + std::to_string(processes) +
        " meant for each machine, write processesPerMachine: " + std::to_string(processes) + ".");
  }

  void Gpus() {
    const bool on_cpu = TrueAt(config_, "use_cpu") || type_ == "MULTI_CPU";
    if (on_cpu) {
      builder_.SetEnv("ACCELERATE_USE_CPU", "true");
    } else if (IsOneOf(type_, {"MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM"})) {
      builder_.job.spec.resources_per_process.gpu = 1;
    } else if (type_.starts_with("MULTI_")) {
      builder_.Remark("distributed_type " + type_ +
                      ": name the device's resource as resourcesPerProcess.gpu and gpuResource.");
    }
    if (type_ == "MULTI_CPU") {
      builder_.Remark(
          "MULTI_CPU: `accelerate launch` starts one process and leaves the rest to "
          "mpirun; here every rank is started.");
    }
    const std::string ids = TextAt(config_, "gpu_ids");
    if (ids.empty() || ids == "all") return;
    builder_.Remark("gpu_ids " + ids +
                    " is carried over as CUDA_VISIBLE_DEVICES, which counts the GPUs of each "
                    "machine; on a cluster remove it, for the pod sees only its own.");
    builder_.SetEnv("CUDA_VISIBLE_DEVICES", ids);
  }

  void Scalars() {
    std::string precision = TextAt(config_, "mixed_precision");
    if (precision.empty() && TrueAt(config_, "fp16")) precision = "fp16";
    if (!precision.empty() && precision != "no") {
      builder_.SetEnv("ACCELERATE_MIXED_PRECISION", precision);
    }
    if (TrueAt(config_, "debug")) builder_.SetEnv("ACCELERATE_DEBUG_MODE", "true");
    const std::string accumulation = TextAt(config_, "gradient_accumulation_steps");
    if (!accumulation.empty()) {
      builder_.SetEnv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", accumulation);
    }
  }

  // Its keys stand with or without their prefix; an old file has dynamo_backend at the top.
  void Dynamo() {
    const std::string legacy = TextAt(config_, "dynamo_backend");
    if (!legacy.empty()) builder_.SetEnv("ACCELERATE_DYNAMO_BACKEND", UpperCase(legacy));
    const Node* dynamo = config_.Find("dynamo_config");
    if (dynamo == nullptr) return;
    for (const NodeMember& member : dynamo->members()) {
      const std::string name = UpperCase(WithoutPrefix(member.key, "dynamo_"));
      const std::string value = EnvValue(member.value);
      builder_.SetEnv("ACCELERATE_DYNAMO_" + name, name == "BACKEND" ? UpperCase(value) : value);
    }
  }

  void Section(std::string_view key, void (Converter::*convert)(const Node&)) {
    const Node* section = config_.Find(key);
    if (section != nullptr && !section->IsEmpty()) (this->*convert)(*section);
  }

  // FSDP's variables do not begin with ACCELERATE_. Unset ones get the launcher's defaults, which
  // differ from the library's.
  void Fsdp(const Node& section) {
    builder_.SetEnv("ACCELERATE_USE_FSDP", "true");
    std::vector<std::string> said;
    for (const NodeMember& member : section.members()) {
      const std::string name = UpperCase(WithoutPrefix(member.key, "fsdp_"));
      said.push_back(name);
      builder_.SetEnv("FSDP_" + name, EnvValue(member.value));
    }
    for (const Default& standard : kFsdpDefaults) {
      if (std::find(said.begin(), said.end(), standard.name) == said.end()) {
        builder_.SetEnv("FSDP_" + std::string(standard.name), standard.value);
      }
    }
  }

  void DeepSpeed(const Node& section) {
    builder_.SetEnv("ACCELERATE_USE_DEEPSPEED", "true");
    std::string fields;
    for (const NodeMember& member : section.members()) {
      fields += (fields.empty() ? "" : ",") + member.key;
      DeepSpeedField(member.key, EnvValue(member.value));
    }
    builder_.SetEnv("ACCELERATE_CONFIG_DS_FIELDS", fields);
  }

  void DeepSpeedField(const std::string& key, const std::string& value) {
    if (IsOneOf(key, {"deepspeed_hostfile", "deepspeed_multinode_launcher",
                      "deepspeed_inclusion_filter", "deepspeed_exclusion_filter"})) {
      builder_.Remark(key +
                      " is not carried over: machines are started without ssh or host files.");
    } else if (key == "gradient_accumulation_steps" || key == "gradient_clipping") {
      builder_.SetEnv("ACCELERATE_" + UpperCase(key), value);
    } else if (key == "zero3_init_flag") {
      builder_.SetEnv("ACCELERATE_DEEPSPEED_ZERO3_INIT", value);
    } else if (key.ends_with("_nvme_path")) {
      builder_.SetEnv("ACCELERATE_DEEPSPEED_" + UpperCase(key), value);
      builder_.Remark(key + " is honoured here; `accelerate launch` itself doesn't pass it on.");
    } else {
      builder_.SetEnv("ACCELERATE_DEEPSPEED_" + UpperCase(WithoutPrefix(key, "deepspeed_")), value);
    }
  }

  void Megatron(const Node& section) {
    builder_.SetEnv("ACCELERATE_USE_MEGATRON_LM", "true");
    for (const NodeMember& member : section.members()) {
      builder_.SetEnv("MEGATRON_LM_" + UpperCase(WithoutPrefix(member.key, "megatron_lm_")),
                      EnvValue(member.value));
    }
  }

  void Parallelism(const Node& section) {
    builder_.SetEnv("ACCELERATE_USE_PARALLELISM_CONFIG", "true");
    int64_t product = 1;
    for (const NodeMember& member : section.members()) {
      const std::string key(WithoutPrefix(member.key, "parallelism_config_"));
      builder_.SetEnv("PARALLELISM_CONFIG_" + UpperCase(key), EnvValue(member.value));
      const std::optional<int64_t> size = ParseNumber<int64_t>(member.value.text());
      if (!key.ends_with("_size") || !size || *size < 1) continue;
      if (__builtin_mul_overflow(product, *size, &product)) product = -1;
    }
    if (product > 1 && product != core::WorldSize(builder_.job.spec)) {
      builder_.Error("parallelism_config", section.position(),
                     "its sizes multiply to " + std::to_string(product) + ", but there are " +
                         std::to_string(core::WorldSize(builder_.job.spec)) +
                         " processes; make them equal");
    }
  }

  // The questionnaire and the readers disagree about three names.
  void Fp8(const Node& section) {
    for (const NodeMember& member : section.members()) {
      std::string name = UpperCase(WithoutPrefix(member.key, "fp8_"));
      if (name == "AMAX_HISTORY_LENGTH") name = "AMAX_HISTORY_LEN";
      if (name == "AMAX_COMPUTE_ALGORITHM") name = "AMAX_COMPUTE_ALGO";
      if (name == "OPTIMIZATION_LEVEL") name = "OPT_LEVEL";
      builder_.SetEnv("ACCELERATE_FP8_" + name, EnvValue(member.value));
    }
  }

  // Keys that `accelerate launch` reads and then leaves aside.
  void Honoured() {
    if (TrueAt(config_, "enable_cpu_affinity")) {
      builder_.Remark(
          "enable_cpu_affinity is honoured (topology.bind: Node, the default); "
          "`accelerate launch` itself ignores it in a file.");
    }
    const std::string backend = TextAt(config_, "rdzv_backend");
    if (!backend.empty() && backend != "static") {
      builder_.Remark("rdzv_backend " + backend +
                      ": `accelerate launch` itself ignores it in a file. Its purpose, restarts of "
                      "several machines, is honoured: the whole gang restarts (failurePolicy).");
    }
  }

  void Ignored() {
    for (const char* key : {"machine_rank", "main_process_ip", "main_process_port"}) {
      const std::string value = TextAt(config_, key);
      if (value.empty() || value == "0") continue;
      builder_.Remark(std::string(key) + " " + value +
                      " is not carried over: every machine is given its own at each start.");
    }
    if (config_.Find("mpirun_config") != nullptr) {
      builder_.Remark("mpirun_config is not carried over: every rank is started without mpirun.");
    }
  }

  void Rest() {
    for (const NodeMember& member : config_.members()) {
      if (IsOneOf(member.key, {"compute_environment",
                               "distributed_type",
                               "num_processes",
                               "num_machines",
                               "machine_rank",
                               "main_process_ip",
                               "main_process_port",
                               "gpu_ids",
                               "mixed_precision",
                               "fp16",
                               "use_cpu",
                               "debug",
                               "rdzv_backend",
                               "same_network",
                               "enable_cpu_affinity",
                               "downcast_bf16",
                               "main_training_function",
                               "dynamo_backend",
                               "dynamo_config",
                               "fsdp_config",
                               "deepspeed_config",
                               "megatron_lm_config",
                               "parallelism_config",
                               "fp8_config",
                               "mpirun_config",
                               "gradient_accumulation_steps",
                               "tpu_use_cluster",
                               "tpu_use_sudo",
                               "tpu_env",
                               "tpu_name",
                               "tpu_zone",
                               "command_file",
                               "commands"})) {
        continue;
      }
      builder_.Remark(member.key + " is unknown and is not carried over.");
    }
  }

  const Node& config_;
  const bool is_total_said_;
  JobBuilder& builder_;
  std::string type_;
};

}  // namespace

void ConvertAccelerateConfig(const Node& config, bool is_total_said, JobBuilder& builder) {
  Converter(config, is_total_said, builder).Convert();
}

}  // namespace lockstep::convert
