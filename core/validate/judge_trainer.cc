#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/validate/judge.h"

namespace lockstep::core {
namespace {

const std::string kTrainerPath = "spec.trainer";
constexpr int64_t kMostCount = std::numeric_limits<int32_t>::max();
constexpr int64_t kMostSteps = 1'000'000'000'000;

void JudgeModel(Judge& judge, const TrainerModel& model) {
  const std::string path = kTrainerPath + ".model";
  if (!model.preset.empty()) {
    if (model.preset != "nano" && model.preset != "micro" && model.preset != "gpt2") {
      judge.Error(path, "must be nano, micro or gpt2, or {layers, heads, width, vocabulary}",
                  "the text \"" + model.preset + "\"");
    }
    return;
  }
  judge.Range(path + ".layers", model.layers, 1, 1024);
  judge.Range(path + ".heads", model.heads, 1, 1024);
  judge.Range(path + ".width", model.width, 1, 65536);
  judge.Range(path + ".vocabulary", model.vocabulary, 1, 1 << 24);
  if (model.heads > 0 && model.width % model.heads != 0) {
    judge.Error(path + ".width", "must be a multiple of heads, " + std::to_string(model.heads),
                std::to_string(model.width));
  }
}

// The worlds up to `limit` among which `batch` sequences can be dealt out evenly.
std::string ValidWorlds(int64_t batch, int64_t micro, int64_t limit) {
  std::string worlds;
  for (int64_t world = 1; world <= limit && world * micro <= batch; ++world) {
    if (batch % (world * micro) != 0) continue;
    if (!worlds.empty()) worlds += ", ";
    worlds += std::to_string(world);
  }
  return worlds;
}

void JudgeBatch(Judge& judge, const Trainer& trainer) {
  const std::string path = kTrainerPath + ".globalBatchSize";
  judge.Range(path, trainer.global_batch_size, 1, kMostCount);
  if (trainer.micro_batch_size) {
    judge.Range(kTrainerPath + ".microBatchSize", *trainer.micro_batch_size, 1, kMostCount);
  }
  const int64_t world = WorldSize(judge.job.spec);
  const int64_t micro = trainer.micro_batch_size.value_or(1);
  if (trainer.global_batch_size < 1 || micro < 1 || world < 1) return;
  if (trainer.global_batch_size % (world * micro) == 0) return;
  constexpr int64_t kShownWorlds = 64;
  const std::string worlds = ValidWorlds(trainer.global_batch_size, micro, kShownWorlds);
  std::string message = "can't be dealt out evenly to " + std::to_string(world) + " processes";
  if (trainer.micro_batch_size) message += " in micro batches of " + std::to_string(micro);
  message += "; write a multiple of " + std::to_string(world * micro);
  if (!worlds.empty()) message += ", or run it with this many processes: " + worlds;
  judge.Error(path, message, std::to_string(trainer.global_batch_size));
}

// Without this a cluster's GPUs would lie idle beside it.
void JudgeDevice(Judge& judge) {
  const int64_t gpus = judge.job.spec.resources_per_process.gpu.value_or(0);
  if (gpus <= 0) return;
  judge.Error("spec.resourcesPerProcess.gpu",
              "remove it: the built-in trainer computes on CPUs; for GPUs write spec.command in "
              "place of spec.trainer",
              std::to_string(gpus));
}

void JudgeServers(Judge& judge, const Trainer& trainer) {
  const std::string path = kTrainerPath + ".servers";
  if (trainer.servers.empty()) {
    judge.Error(path, "must name at least one rank, as in [0]");
  }
  for (size_t i = 0; i < trainer.servers.size(); ++i) {
    const std::string item = path + "[" + std::to_string(i) + "]";
    judge.Range(item, trainer.servers[i], 0, WorldSize(judge.job.spec) - 1);
    const auto end = trainer.servers.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(trainer.servers.begin(), end, trainer.servers[i]) != end) {
      judge.Error(item, "names a rank twice", std::to_string(trainer.servers[i]));
    }
  }
}

}  // namespace

void JudgeTrainer(Judge& judge) {
  if (!judge.job.spec.trainer) return;
  const Trainer& trainer = *judge.job.spec.trainer;
  JudgeDevice(judge);
  JudgeModel(judge, trainer.model);
  JudgeBatch(judge, trainer);
  if (trainer.mode == TrainerMode::kTrain && trainer.data.empty()) {
    judge.Error(kTrainerPath + ".data",
                "is missing; name the files to train on, as in [/data/*.txt]");
  }
  if (trainer.mode == TrainerMode::kGenerate && trainer.prompts.empty()) {
    judge.Error(kTrainerPath + ".prompts",
                "is missing; mode: Generate needs files of prompts, a prompt a line, as in "
                "[/data/prompts.txt]");
  }
  JudgeServers(judge, trainer);
  judge.Range(kTrainerPath + ".steps", trainer.steps, 1, kMostSteps);
  judge.Range(kTrainerPath + ".sequenceLength", trainer.sequence_length, 1, 1 << 20);
  judge.Range(kTrainerPath + ".warmupSteps", trainer.warmup_steps, 0, kMostSteps);
  judge.Range(kTrainerPath + ".decaySteps", trainer.decay_steps, 0, kMostSteps);
  judge.Range(kTrainerPath + ".checkpointEvery", trainer.checkpoint_every, 0, kMostSteps);
  judge.Range(kTrainerPath + ".bucketMb", trainer.bucket_mb, 1, 1024);
  if (trainer.learning_rate <= 0)
    judge.Error(kTrainerPath + ".learningRate", "must be greater than 0");
  if (trainer.weight_decay < 0) judge.Error(kTrainerPath + ".weightDecay", "must be 0 or more");
  if (trainer.clip < 0) judge.Error(kTrainerPath + ".clip", "must be 0 (off) or more");
}

}  // namespace lockstep::core
