#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/model/presets.h"
#include "core/model/shortcuts.h"
#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

const std::string kTrainerPath = "spec.trainer";

void ValidateModelShape(Validator& validator, const ModelShape& shape) {
  if (shape.heads > 0 && shape.width % shape.heads != 0) {
    validator.Error(kTrainerPath + ".modelShape.width",
                    "must be a multiple of heads, " + std::to_string(shape.heads),
                    std::to_string(shape.width));
  }
}

// The world sizes, of up to `limit` pipelines of `ranks` processes, that divide `batch` evenly.
std::string ValidWorlds(int64_t batch, int64_t micro, int64_t limit, int64_t ranks) {
  std::string worlds;
  for (int64_t world = 1; world <= limit && world * micro <= batch; ++world) {
    if (batch % (world * micro) != 0) continue;
    if (!worlds.empty()) worlds += ", ";
    worlds += std::to_string(world * ranks);
  }
  return worlds;
}

// Processes that share one model.
int64_t RanksOfPipeline(const Parallel& parallel) {
  return std::max<int64_t>(parallel.pipeline, 1) * std::max<int64_t>(parallel.tensor, 1);
}

void ValidateBatch(Validator& validator, const Trainer& trainer) {
  const std::string path = kTrainerPath + ".globalBatchSize";
  const int64_t ranks = RanksOfPipeline(trainer.parallel);
  const int64_t processes = WorldSize(validator.job.spec);
  if (processes % ranks != 0) return;  // told of the pipeline
  const int64_t world = processes / ranks;
  const int64_t micro = trainer.micro_batch_size.value_or(1);
  if (trainer.global_batch_size < 1 || micro < 1 || world < 1) return;
  if (trainer.global_batch_size % (world * micro) == 0) return;
  constexpr int64_t kShownWorlds = 64;
  const std::string worlds = ValidWorlds(trainer.global_batch_size, micro, kShownWorlds, ranks);
  std::string message =
      "cannot be divided evenly among " + std::to_string(processes) + " processes";
  if (ranks > 1) message += " in pipelines of " + std::to_string(ranks);
  if (trainer.micro_batch_size) message += " in micro batches of " + std::to_string(micro);
  message += "; write a multiple of " + std::to_string(world * micro);
  if (!worlds.empty()) message += ", or run it with this many processes: " + worlds;
  validator.Error(path, message, std::to_string(trainer.global_batch_size));
}

// "1, 2, 4": what divides `number`.
std::string Divisors(int64_t number) {
  std::string text;
  for (int64_t n = 1; n <= number; ++n) {
    if (number % n != 0) continue;
    if (!text.empty()) text += ", ";
    text += std::to_string(n);
  }
  return text;
}

bool OnGpus(const Spec& spec) {
  const Device device = spec.trainer->device;
  return device == Device::kCuda || (device == Device::kAuto && AsksForGpus(spec));
}

void ValidateGpus(Validator& validator, const Trainer& trainer) {
  const std::string gpu = "spec.resourcesPerProcess.gpu";
  const int64_t gpus = validator.job.spec.resources_per_process.gpu.value_or(0);
  if (gpus > 1) {
    validator.Error(gpu,
                    "must be 1 for spec.trainer, which uses one GPU a process; for more GPUs raise "
                    "spec.processesPerMachine",
                    std::to_string(gpus));
  }
  if (gpus > 0 && trainer.device == Device::kCpu) {
    validator.Error(
        gpu,
        "remove it, or write spec.trainer.device: Cuda; on CPUs the trainer would leave "
        "its GPUs idle",
        std::to_string(gpus));
  }
  if (!AsksForGpus(validator.job.spec) && trainer.device == Device::kCuda && !validator.local()) {
    validator.Error(kTrainerPath + ".device",
                    "needs spec.resourcesPerProcess.gpu: 1; without it the pods have no GPUs");
  }
}

// The limits of the model on a GPU; the trainer itself knows the limits of the batch.
void ValidateModelOnGpus(Validator& validator, const Trainer& trainer) {
  constexpr int32_t kHeadWidth = 64;
  constexpr int32_t kMostWidth = 3072;
  if (!trainer.model_shape) {
    if (trainer.model == Model::kNano) {
      validator.Error(
          kTrainerPath + ".model",
          "must be micro or gpt2 on GPUs, whose heads are 64 wide, or write modelShape; "
          "nano's are 48");
    }
    return;
  }
  const ModelShape& shape = *trainer.model_shape;
  const std::string path = kTrainerPath + ".modelShape.width";
  if (shape.heads > 0 && shape.width != int64_t{shape.heads} * kHeadWidth) {
    validator.Error(
        path, "must be 64 x heads on GPUs, " + std::to_string(int64_t{shape.heads} * kHeadWidth),
        std::to_string(shape.width));
  } else if (shape.width > kMostWidth) {
    validator.Error(path, "must be at most " + std::to_string(kMostWidth) + " on GPUs",
                    std::to_string(shape.width));
  }
}

// The settings that fit the device.
void ValidateDevice(Validator& validator, const Trainer& trainer) {
  ValidateGpus(validator, trainer);
  const Spec& spec = validator.job.spec;
  const bool on_gpus = OnGpus(spec);
  // On this computer Auto may find a GPU.
  const bool on_cpus = !on_gpus && (trainer.device == Device::kCpu || !validator.local());
  if (trainer.backend == Backend::kNccl && on_cpus) {
    validator.Error(kTrainerPath + ".backend",
                    "must be Auto or Gloo on CPUs; for GPUs write spec.resourcesPerProcess.gpu: 1");
  }
  if (trainer.reduce == Reduce::kNccl && on_cpus) {
    validator.Error(kTrainerPath + ".reduce",
                    "must be Tree or Ring on CPUs; Nccl is NCCL's sum, between GPUs");
  }
  if (!on_gpus) return;
  if (spec.resources_per_process.gpu_resource.starts_with("amd.com/")) {
    validator.Error("spec.resourcesPerProcess.gpuResource",
                    "must be a resource of NVIDIA's GPUs for spec.trainer, as in nvidia.com/gpu; "
                    "on AMD GPUs run your own command");
  }
  if (trainer.reduce == Reduce::kRing) {
    validator.Error(kTrainerPath + ".reduce",
                    "must be Tree or Nccl on GPUs; Ring is Gloo's sum, between CPUs");
  }
  if (trainer.backend == Backend::kGloo) {
    validator.Error(kTrainerPath + ".backend",
                    "must be Auto or Nccl on GPUs; Gloo works in the memory of CPUs");
  }
  if (trainer.sync == Sync::kParameterServer) {
    validator.Error(kTrainerPath + ".sync",
                    "must be AllReduce on GPUs; servers of parameters work on CPUs");
  }
  ValidateModelOnGpus(validator, trainer);
}

// Settings that divide a model into parts. They need ranks that train and are summed as a tree.
struct Cut {
  std::string path;
  int32_t parts;
  std::string adds_up;
};

void ValidateCut(Validator& validator, const Trainer& trainer, const Cut& cut) {
  if (cut.parts <= 1) return;
  const std::string value = std::to_string(cut.parts);
  if (trainer.mode == TrainerMode::kGenerate) {
    validator.Error(cut.path, "must be 1 for mode Generate, whose ranks share the prompts", value);
  }
  if (trainer.sync == Sync::kParameterServer) {
    validator.Error(cut.path, "must be 1 with a parameter server, because it serves whole models",
                    value);
  }
  if (trainer.reduce != Reduce::kTree) {
    validator.Error(cut.path, "must be 1 unless reduce is Tree, as " + cut.adds_up + " add up",
                    value);
  }
  if (trainer.measure_scaling) {
    validator.Error(
        cut.path, "must be 1 for measureScaling; a rank with a part of the model cannot run alone",
        value);
  }
}

void ValidatePipeline(Validator& validator, const Trainer& trainer) {
  const std::string path = kTrainerPath + ".parallel.pipeline";
  const int32_t stages = trainer.parallel.pipeline;
  if (stages <= 1) return;
  const std::string value = std::to_string(stages);
  const int64_t world = WorldSize(validator.job.spec);
  if (world % stages != 0) {
    validator.Error(path,
                    "must divide the number of processes, " + std::to_string(world) +
                        "; it may be " + Divisors(world),
                    value);
  }
  const int32_t layers = SizesOf(trainer).layers;
  if (layers % stages != 0) {
    validator.Error(path,
                    "must divide the model's layers, " + std::to_string(layers) + "; it may be " +
                        Divisors(layers),
                    value);
  }
  ValidateCut(validator, trainer, {path, stages, "copies of a stage"});
}

void ValidateTensor(Validator& validator, const Trainer& trainer) {
  const std::string parallel = kTrainerPath + ".parallel";
  const int32_t tensor = trainer.parallel.tensor;
  const int32_t shards = trainer.parallel.tensor_shards;
  if (tensor < 1 || shards < 1) return;  // told of the range
  const int64_t world = WorldSize(validator.job.spec);
  const int64_t ranks = RanksOfPipeline(trainer.parallel);
  if (tensor > 1 && world % ranks != 0) {
    validator.Error(parallel + ".tensor",
                    "times pipeline must divide the number of processes, " + std::to_string(world),
                    std::to_string(tensor));
  }
  if (shards % tensor != 0) {
    validator.Error(parallel + ".tensor",
                    "must divide tensorShards, " + std::to_string(shards) + "; it may be " +
                        Divisors(shards) + ", or more with a larger tensorShards",
                    std::to_string(tensor));
  }
  const std::string path = parallel + ".tensorShards";
  const int32_t heads = SizesOf(trainer).heads;
  if (!std::has_single_bit(static_cast<uint32_t>(shards))) {
    validator.Error(path, "must be a power of two, because shards are summed as a tree",
                    std::to_string(shards));
  } else if (heads % shards != 0) {
    const int32_t most = heads & -heads;  // the largest power of two that divides it
    validator.Error(
        path,
        "must divide the model's heads, " + std::to_string(heads) + "; it may be " + Divisors(most),
        std::to_string(shards));
  }
  ValidateCut(validator, trainer, {path, shards, "shards"});
}

// A rank that lives on must hold the whole state, in memory that outlasts its communicator.
void ValidateRecovery(Validator& validator, const Trainer& trainer) {
  if (trainer.recovery != Recovery::kInPlace) return;
  const std::string path = kTrainerPath + ".recovery";
  if (trainer.mode == TrainerMode::kGenerate) {
    validator.Error(path, "must be Restart for mode Generate, whose ranks hold no state");
  }
  if (trainer.sync == Sync::kParameterServer) {
    validator.Error(path, "must be Restart with a parameter server, because ranks lack its state");
  }
  if (RanksOfPipeline(trainer.parallel) > 1) {
    validator.Error(path,
                    "must be Restart if parallel.pipeline or tensor is above 1; a rank with a part "
                    "of the model cannot give all of it to another");
  }
}

void ValidateServers(Validator& validator, const Trainer& trainer) {
  const std::string path = kTrainerPath + ".servers";
  if (trainer.servers.empty()) {
    validator.Error(path, "must name at least one rank, as in [0]");
  }
  for (size_t i = 0; i < trainer.servers.size(); ++i) {
    const std::string item = path + "[" + std::to_string(i) + "]";
    validator.Range(item, trainer.servers[i], 0, WorldSize(validator.job.spec) - 1);
    const auto end = trainer.servers.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(trainer.servers.begin(), end, trainer.servers[i]) != end) {
      validator.Error(item, "names a rank twice", std::to_string(trainer.servers[i]));
    }
  }
}

}  // namespace

void ValidateTrainer(Validator& validator) {
  if (!validator.job.spec.trainer) return;
  const Trainer& trainer = *validator.job.spec.trainer;
  ValidateDevice(validator, trainer);
  if (trainer.model_shape) ValidateModelShape(validator, *trainer.model_shape);
  ValidateBatch(validator, trainer);
  if (trainer.mode == TrainerMode::kTrain && trainer.data.empty()) {
    validator.Error(kTrainerPath + ".data",
                    "is missing; name the files to train on, as in [/data/*.txt]");
  }
  if (trainer.mode == TrainerMode::kGenerate && trainer.prompts.empty()) {
    validator.Error(kTrainerPath + ".prompts",
                    "is missing; mode: Generate needs files of prompts, a prompt a line, as in "
                    "[/data/prompts.txt]");
  }
  if (trainer.validate_every > 0 && trainer.validation_data.empty()) {
    validator.Error(kTrainerPath + ".validationData",
                    "is missing; name the files to validate on, as in [/data/held-out.txt], or "
                    "leave validateEvery out");
  }
  ValidateServers(validator, trainer);
  ValidatePipeline(validator, trainer);
  ValidateTensor(validator, trainer);
  ValidateRecovery(validator, trainer);
  if (trainer.learning_rate <= 0)
    validator.Error(kTrainerPath + ".learningRate", "must be greater than 0");
  if (trainer.weight_decay < 0) validator.Error(kTrainerPath + ".weightDecay", "must be 0 or more");
  if (trainer.clip < 0) validator.Error(kTrainerPath + ".clip", "must be 0 (off) or more");
}

}  // namespace lockstep::core
