#include "core/plan/trainer_command.h"

#include <charconv>
#include <utility>

namespace lockstep::core {

namespace {

// The shortest text that reads back as the same number.
std::string Number(double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {std::begin(text), end};
}

class Command {
 public:
  explicit Command(const char* mode) : words_{std::string(kTrainerProgram), mode} {}

  void Add(std::string_view option, const std::string& value) {
    words_.push_back("--" + std::string(option) + "=" + value);
  }
  void Add(std::string_view option, const char* value) { Add(option, std::string(value)); }
  void Add(std::string_view option, int64_t value) { Add(option, std::to_string(value)); }
  void Add(std::string_view option, double value) { Add(option, Number(value)); }

  std::vector<std::string> Take() { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

void AddModel(const TrainerModel& model, Command& command) {
  if (!model.preset.empty()) return command.Add("model", model.preset);
  command.Add("layers", int64_t{model.layers});
  command.Add("heads", int64_t{model.heads});
  command.Add("width", int64_t{model.width});
  command.Add("vocabulary", int64_t{model.vocabulary});
}

std::vector<std::string> GenerateCommand(const Trainer& trainer) {
  Command command("generate");
  for (const std::string& file : trainer.prompts) command.Add("prompts", file);
  command.Add("seed", trainer.seed);
  return command.Take();
}

}  // namespace

std::vector<std::string> TrainerCommand(const Trainer& trainer) {
  if (trainer.mode == TrainerMode::kGenerate) return GenerateCommand(trainer);
  Command command("train");
  AddModel(trainer.model, command);
  for (const std::string& glob : trainer.data) command.Add("data", glob);
  command.Add("steps", trainer.steps);
  command.Add("global-batch-size", int64_t{trainer.global_batch_size});
  if (trainer.micro_batch_size) {
    command.Add("micro-batch-size", int64_t{*trainer.micro_batch_size});
  }
  command.Add("sequence-length", int64_t{trainer.sequence_length});
  command.Add("learning-rate", trainer.learning_rate);
  command.Add("warmup-steps", trainer.warmup_steps);
  command.Add("decay-steps", trainer.decay_steps);
  command.Add("weight-decay", trainer.weight_decay);
  command.Add("clip", trainer.clip);
  command.Add("seed", trainer.seed);
  command.Add("precision", trainer.precision == Precision::kBf16 ? "bf16" : "fp32");
  if (trainer.sync == Sync::kParameterServer) {
    command.Add("sync", "parameter-server");
    for (const int32_t server : trainer.servers) command.Add("server", int64_t{server});
  } else {
    command.Add("reduce", trainer.reduce == Reduce::kRing ? "ring" : "tree");
    command.Add("bucket-mb", int64_t{trainer.bucket_mb});
    command.Add("overlap", trainer.overlap ? "on" : "off");
  }
  command.Add("checkpoint-every", trainer.checkpoint_every);
  return command.Take();
}

}  // namespace lockstep::core
