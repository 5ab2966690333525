// Converts accelerate's configuration (`accelerate config`). Settings become the environment
// variables that `accelerate launch` would set; keys that it ignores get a remark.
#include <algorithm>
#include <cctype>

#include "cli/convert/accelerate_keys.h"
#include "cli/convert/job_builder.h"

namespace lockstep::convert {
namespace {

std::string UpperCase(std::string_view text) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper;
}

// As accelerate writes a value into the environment; it reads all of YAML 1.1's words for true.
std::string EnvValue(const Node& node) {
  if (node.IsList()) {
    std::string joined;
    for (const Node& item : node.items()) joined += (joined.empty() ? "" : ",") + item.text();
    return joined;
  }
  const std::string lower = ToLower(node.text());
  if (IsOneOf(lower, {"true", "yes", "on"})) return "true";
  return IsOneOf(lower, {"false", "no", "off"}) ? "false" : node.text();
}

class Converter {
 public:
  Converter(const AccelerateConfig& config, JobBuilder& builder)
      : config_(config.whole),
        file_(config.file),
        is_total_said_(config.is_total_said),
        builder_(builder) {}

  void Convert() {
    builder_.job.spec.framework = core::Framework::kAccelerate;
    if (!CheckType()) return;
    Size();
    Gpus();
    Scalars();
    Dynamo();
    Section(AccelerateSection::kDynamo, true);
    Section(AccelerateSection::kFsdp, type_ == "FSDP", "ACCELERATE_USE_FSDP");
    Section(AccelerateSection::kDeepSpeed, type_ == "DEEPSPEED", "ACCELERATE_USE_DEEPSPEED");
    Section(AccelerateSection::kMegatron, type_ == "MEGATRON_LM", "ACCELERATE_USE_MEGATRON_LM");
    Section(AccelerateSection::kFp8, precision_ == "fp8");
    Parallelism();
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
                     "a SageMaker configuration has no machines; make one for LOCAL_MACHINE with "
                     "`accelerate config`");
      return false;
    }
    if (IsOneOf(type_, {"XLA", "TPU"})) {
      builder_.Error("distributed_type", At("distributed_type"),
                     "TPUs start their processes inside one program; a TrainingJob can't");
      return false;
    }
    if (!IsOneOf(type_, {"NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_XPU", "MULTI_MLU",
                         "MULTI_SDAA", "MULTI_MUSA", "MULTI_HPU", "MULTI_NEURON", "FSDP",
                         "DEEPSPEED", "MEGATRON_LM"})) {
      builder_.Error("distributed_type", At("distributed_type"),
                     type_.empty() ? "is missing; write MULTI_GPU, FSDP, DEEPSPEED, MEGATRON_LM, "
                                     "MULTI_CPU or NO"
                                   : "\"" + type_ +
                                         "\" is not a known value; write MULTI_GPU, FSDP, "
                                         "DEEPSPEED, MEGATRON_LM, MULTI_CPU or NO");
      return false;
    }
    if (type_ == "NO" && ParseNumber<int64_t>(TextAt(config_, "num_machines")).value_or(1) > 1) {
      builder_.Error(
          "distributed_type", At("distributed_type"),
          "NO with several machines would train a separate model on each; write MULTI_GPU "
          "or MULTI_CPU");
      return false;
    }
    return true;
  }

  void Size() {
    const int64_t machines = CountAt(config_, "num_machines", 1, builder_);
    int64_t processes = CountAt(config_, "num_processes", type_ == "NO" ? 1 : -1, builder_);
    if (type_ == "NO" && processes > 1) {
      builder_.Warn("distributed_type NO starts one process, whatever num_processes " +
                    std::to_string(processes) + " says: write MULTI_GPU or MULTI_CPU for more.");
    }
    if (type_ == "NO") processes = 1;
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
    } else if (IsOneOf(type_, {"NO", "MULTI_GPU", "FSDP", "DEEPSPEED", "MEGATRON_LM"})) {
      builder_.job.spec.resources_per_process.gpu = 1;
      if (type_ == "NO") {
        builder_.Remark(
            "distributed_type NO uses a GPU if there is one, so the process asks for one. To "
            "train on the CPU, remove resourcesPerProcess.gpu.");
      }
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
                    "machine; on a cluster remove it, because the pod sees only its own.");
    builder_.SetEnv("CUDA_VISIBLE_DEVICES", ids);
  }

  void Scalars() {
    precision_ = ToLower(TextAt(config_, "mixed_precision"));
    if (precision_.empty() && TrueAt(config_, "fp16")) precision_ = "fp16";
    if (!IsOneOf(precision_, {"", "no", "false"})) {
      builder_.SetEnv("ACCELERATE_MIXED_PRECISION", precision_);
    }
    if (TrueAt(config_, "debug")) builder_.SetEnv("ACCELERATE_DEBUG_MODE", "true");
  }

  // An old file has dynamo_backend at the top.
  void Dynamo() {
    const std::string legacy = TextAt(config_, "dynamo_backend");
    if (!legacy.empty()) builder_.SetEnv("ACCELERATE_DYNAMO_BACKEND", UpperCase(legacy));
  }

  // The variables of a section's keys, which stand with or without its prefix, and, where a
  // variable `use` says that the section is used, of the launcher's defaults, which differ from the
  // library's. `is_read`: the launcher takes the section for this distributed_type.
  void Section(AccelerateSection section, bool is_read, const std::string& use = "") {
    const std::string name = SectionName(section);
    const Node* settings = config_.Find(name);
    const bool is_there = settings != nullptr && !settings->IsEmpty();
    if (!is_read) {
      if (is_there) {
        builder_.Remark(
            name + " is not carried over: with distributed_type " + type_ +
            (section == AccelerateSection::kFp8 ? ", and mixed_precision not fp8," : "") +
            " `accelerate launch` does not read it.");
      }
      return;
    }
    if (use.empty() && !is_there) return;
    if (!use.empty()) builder_.SetEnv(use, "true");
    std::vector<std::string_view> said;
    for (const NodeMember& member : is_there ? settings->members() : std::vector<NodeMember>()) {
      const AccelerateKey* key = KeyOf(section, member.key);
      if (key == nullptr) {
        builder_.Remark(name + "." + member.key + " is unknown and is not carried over.");
      } else if (!member.value.IsNull()) {
        Set(*key, member);
        said.push_back(key->variable);
      }
    }
    if (use.empty()) return;
    for (const AccelerateKey& key : AccelerateKeys()) {
      if (key.section == section && !key.standard.empty() &&
          std::find(said.begin(), said.end(), key.variable) == said.end()) {
        builder_.SetEnv(std::string(key.variable), std::string(key.standard));
      }
    }
    if (section == AccelerateSection::kDeepSpeed) DeepSpeedFields();
  }

  static const AccelerateKey* KeyOf(AccelerateSection section, const std::string& name) {
    const std::string of_section = SectionName(section);
    const std::string prefix =
        section == AccelerateSection::kParallelism
            ? of_section + "_"
            : of_section.substr(0, of_section.size() - std::string_view("config").size());
    for (const std::string& each : {name, prefix + name}) {
      const AccelerateKey* key = FindAccelerateKey(each);
      if (key != nullptr && key->section == section) return key;
    }
    return nullptr;
  }

  void Set(const AccelerateKey& key, const NodeMember& member) {
    const std::string value = EnvValue(member.value);
    if (key.section == AccelerateSection::kFp8 && key.variable.empty()) {
      builder_.Remark(member.key + " " + value +
                      " is not carried over: write ACCELERATE_FP8_OVERRIDE_FPROP, "
                      "ACCELERATE_FP8_OVERRIDE_DGRAD and ACCELERATE_FP8_OVERRIDE_WGRAD into env.");
    } else if (key.variable.empty()) {
      builder_.Remark(member.key +
                      " is not carried over: machines are started without ssh or host files.");
    } else if (key.option == "dynamo-backend") {
      builder_.SetEnv(std::string(key.variable), UpperCase(member.value.text()));
    } else {
      builder_.SetEnv(std::string(key.variable), value);
    }
    if (key.option.ends_with("-nvme-path")) {
      builder_.Remark(member.key +
                      " is honoured here, although `accelerate launch` does not pass it on.");
    }
  }

  // The keys of the file, which a DeepSpeed configuration of its own must not have, too.
  void DeepSpeedFields() {
    std::string fields;
    const Node* settings =
        file_ == nullptr ? nullptr : file_->Find(SectionName(AccelerateSection::kDeepSpeed));
    if (settings != nullptr) {
      for (const NodeMember& member : settings->members()) {
        fields += (fields.empty() ? "" : ",") + ToLower(member.key);
      }
    }
    if (file_ != nullptr && file_->Find("mixed_precision") != nullptr) {
      fields += (fields.empty() ? "" : ",") + std::string("mixed_precision");
    }
    builder_.SetEnv("ACCELERATE_CONFIG_DS_FIELDS", fields);
  }

  void Parallelism() {
    const Node* section = config_.Find(SectionName(AccelerateSection::kParallelism));
    if (section == nullptr || section->IsEmpty()) return;
    const bool is_read = !IsOneOf(type_, {"NO", "MULTI_CPU"});
    Section(AccelerateSection::kParallelism, is_read, "ACCELERATE_USE_PARALLELISM_CONFIG");
    int64_t product = 1;
    for (const NodeMember& member : section->members()) {
      const std::optional<int64_t> size = ParseNumber<int64_t>(member.value.text());
      if (!member.key.ends_with("_size") || !size || *size < 1) continue;
      if (__builtin_mul_overflow(product, *size, &product)) product = -1;
    }
    if (is_read && product > 1 && product != core::WorldSize(builder_.job.spec)) {
      builder_.Error("parallelism_config", section->position(),
                     "its sizes multiply to " + std::to_string(product) + ", but there are " +
                         std::to_string(core::WorldSize(builder_.job.spec)) +
                         " processes; make them equal");
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
                      " is not carried over: Lockstep gives each machine its own at each start.");
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
  const Node* const file_;
  const bool is_total_said_;
  JobBuilder& builder_;
  std::string type_;
  std::string precision_;
};

}  // namespace

void ConvertAccelerateConfig(const AccelerateConfig& config, JobBuilder& builder) {
  Converter(config, builder).Convert();
}

}  // namespace lockstep::convert
