#include "worker/trainer/run/train.h"

#include <map>
#include <memory>
#include <string>

#include "worker/trainer/commands/commands.h"

namespace lockstep::trainer {

namespace {

const std::map<std::string, Precision> kPrecisions = {{"fp32", Precision::kFp32},
                                                      {"bf16", Precision::kBf16}};
const std::map<std::string, SyncKind> kSyncs = {{"allreduce", SyncKind::kAllReduce},
                                                {"parameter-server", SyncKind::kParameterServer}};
const std::map<std::string, bool> kSwitch = {{"on", true}, {"off", false}};

void AddModel(CLI::App* command, TrainOptions& options) {
  command->add_option("--model", options.model, "nano, micro or gpt2; else give the sizes");
  CLI::Option* layers = command->add_option("--layers", options.sizes.layers, "blocks");
  command->add_option("--heads", options.sizes.heads, "attention heads a block")->needs(layers);
  command->add_option("--width", options.sizes.width, "of the embeddings, a multiple of heads")
      ->needs(layers);
  command->add_option("--vocabulary", options.sizes.vocabulary, "tokens; 256 for bytes")
      ->needs(layers);
  layers->each([&options](const std::string&) { options.model.clear(); });
}

void AddData(CLI::App* command, TrainOptions& options) {
  command->add_option("--data", options.data, "text or llm.c .bin files; globs")->required();
  command->add_option("--steps", options.steps, "of the optimizer, in all")
      ->check(CLI::PositiveNumber);
  command->add_option("--global-batch-size", options.global_batch, "sequences a step, all ranks")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--micro-batch-size", options.micro_batch,
                   "sequences of one rank at a time (0: chosen)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--sequence-length", options.sequence_length, "tokens a sequence")
      ->check(CLI::Range(1, 1 << 20, "1..1048576"));
  command->add_option("--seed", options.seed, "of the weights and of the data's order");
}

void AddOptimizer(CLI::App* command, TrainOptions& options) {
  command->add_option("--learning-rate", options.learning_rate, "the highest")
      ->check(CLI::PositiveNumber);
  command->add_option("--warmup-steps", options.warmup_steps, "until the highest learning rate")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--decay-steps", options.decay_steps,
                   "of the cosine down to the lowest (0: all steps)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--weight-decay", options.weight_decay, "of AdamW")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--clip", options.clip, "the most that the gradient's norm may be (0: any)")
      ->check(CLI::NonNegativeNumber);
  AddChoice(command, "--precision", options.precision, kPrecisions, "of matrix products");
  command
      ->add_option("--max-skipped", options.max_skipped,
                   "steps in a row whose loss may be no number")
      ->check(CLI::NonNegativeNumber);
}

void AddSync(CLI::App* command, TrainOptions& options) {
  AddChoice(command, "--sync", options.sync, kSyncs, "how ranks agree on gradients");
  command->add_option("--server", options.servers, "a rank that serves parameters; repeatable")
      ->check(CLI::NonNegativeNumber);
  AddChoice(command, "--reduce", options.reduce, kAlgorithms,
            "tree: the same bits at every power-of-two world; ring: Gloo's");
  command->add_option("--bucket-mb", options.bucket_mb, "megabytes of gradients in one collective")
      ->check(CLI::Range(1, 1024, "1..1024"));
  AddChoice(command, "--overlap", options.overlap, kSwitch,
            "whether gradients go out while others are computed");
  command
      ->add_option("--compare-every", options.compare_every,
                   "steps between comparisons of the replicas (0: never)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--collective-timeout", options.collective_timeout,
                   "seconds until a collective gives up")
      ->check(CLI::PositiveNumber);
}

void AddFiles(CLI::App* command, TrainOptions& options) {
  command->add_option(
      "--checkpoint-dir", options.checkpoint_dir,
      "where checkpoints go without an agent; under one the job's checkpoint.path is used");
  command->add_option("--resume", options.resume,
                      "without an agent: auto, never, or a checkpoint's folder");
  command
      ->add_option("--checkpoint-every", options.checkpoint_every,
                   "steps between checkpoints (0: only the last)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--keep", options.keep, "checkpoints to keep (0: all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option(
      "--metrics", options.metrics,
      "file for a line of JSON a step, of rank 0; of each, with {rank} in the name");
  command->add_option("--tensorboard", options.tensorboard,
                      "folder of the event files, or none (below the checkpoints)");
}

}  // namespace

void AddTrain(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a GPT on text: one rank of the gang");
  command->option_defaults()->always_capture_default();
  AddModel(command, *options);
  AddData(command, *options);
  AddOptimizer(command, *options);
  AddSync(command, *options);
  AddFiles(command, *options);
  command
      ->add_option("--threads", options->threads,
                   "of this rank (0: OMP_NUM_THREADS, else all cores)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--log-every", options->log_every, "steps between lines of the log (0: none)")
      ->check(CLI::NonNegativeNumber);
  command->callback([options, exit_code] { *exit_code = Train(*options); });
}

}  // namespace lockstep::trainer
