#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/validate/validator.h"

namespace lockstep::core {
namespace {

const std::string kTrainerPath = "spec.trainer";

void ValidateModel(Validator& validator, const TrainerModel& model) {
  const std::string path = kTrainerPath + ".model";
  if (!model.preset.empty()) {
    if (model.preset != "nano" && model.preset != "micro" && model.preset != "gpt2") {
      validator.Error(path, "must be nano, micro or gpt2, or {layers, heads, width, vocabulary}",
                      "the text \"" + model.preset + "\"");
    }
    return;
  }
  if (model.heads > 0 && model.width % model.heads != 0) {
    validator.Error(path + ".width", "must be a multiple of heads, " + std::to_string(model.heads),
                    std::to_string(model.width));
  }
}

// The world sizes up to `limit` that divide `batch` evenly.
std::string ValidWorlds(int64_t batch, int64_t micro, int64_t limit) {
  std::string worlds;
  for (int64_t world = 1; world <= limit && world * micro <= batch; ++world) {
    if (batch % (world * micro) != 0) continue;
    if (!worlds.empty()) worlds += ", ";
    worlds += std::to_string(world);
  }
  return worlds;
}

void ValidateBatch(Validator& validator, const Trainer& trainer) {
  const std::string path = kTrainerPath + ".globalBatchSize";
  const int64_t world = WorldSize(validator.job.spec);
  const int64_t micro = trainer.micro_batch_size.value_or(1);
  if (trainer.global_batch_size < 1 || micro < 1 || world < 1) return;
  if (trainer.global_batch_size % (world * micro) == 0) return;
  constexpr int64_t kShownWorlds = 64;
  const std::string worlds = ValidWorlds(trainer.global_batch_size, micro, kShownWorlds);
  std::string message = "can't be dealt out evenly to " + std::to_string(world) + " processes";
  if (trainer.micro_batch_size) message += " in micro batches of " + std::to_string(micro);
  message += "; write a multiple of " + std::to_string(world * micro);
  if (!worlds.empty()) message += ", or run it with this many processes: " + worlds;
  validator.Error(path, message, std::to_string(trainer.global_batch_size));
}

// The built-in trainer uses no GPUs, so GPUs that the job asked for would lie idle.
void ValidateDevice(Validator& validator) {
  const int64_t gpus = validator.job.spec.resources_per_process.gpu.value_or(0);
  if (gpus <= 0) return;
  validator.Error(
      "spec.resourcesPerProcess.gpu",
      "remove it: the built-in trainer computes on CPUs; for GPUs write spec.command in "
      "place of spec.trainer",
      std::to_string(gpus));
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
  ValidateDevice(validator);
  ValidateModel(validator, trainer.model);
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
  ValidateServers(validator, trainer);
  if (trainer.learning_rate <= 0)
    validator.Error(kTrainerPath + ".learningRate", "must be greater than 0");
  if (trainer.weight_decay < 0) validator.Error(kTrainerPath + ".weightDecay", "must be 0 or more");
  if (trainer.clip < 0) validator.Error(kTrainerPath + ".clip", "must be 0 (off) or more");
}

}  // namespace lockstep::core
