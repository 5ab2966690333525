#include "worker/trainer/run/train.h"

#include <memory>
#include <string>

#include "worker/trainer/commands/commands.h"

namespace lockstep::trainer {

namespace {

void AddModel(CLI::App* command, TrainOptions& options) {
  core::ModelShape& sizes = options.sizes;
  AddChoice(command, "--model", options.job.model, "name of the model; else give the sizes");
  CLI::Option* layers = command->add_option("--layers", sizes.layers, "blocks");
  command->add_option("--heads", sizes.heads, "attention heads of a block")->needs(layers);
  command->add_option("--width", sizes.width, "width of the embeddings, a multiple of heads")
      ->needs(layers);
  command->add_option("--vocabulary", sizes.vocabulary, "tokens of the vocabulary; 256 for bytes")
      ->needs(layers);
}

void AddData(CLI::App* command, core::Trainer& job) {
  command->add_option("--data", job.data, "globs of text or llm.c .bin files")->required();
  command->add_option("--steps", job.steps, "steps of the optimizer, in all")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--global-batch-size", job.global_batch_size, "sequences a step, of all ranks")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--micro-batch-size", job.micro_batch_size,
                   "sequences of one rank at a time (default: chosen)")
      ->check(CLI::PositiveNumber);
  command->add_option("--sequence-length", job.sequence_length, "tokens a sequence")
      ->check(CLI::Range(1, 1 << 20, "1..1048576"));
  command->add_option("--seed", job.seed, "seed of the weights and of the order of the data");
}

void AddValidation(CLI::App* command, core::Trainer& job) {
  CLI::Option* data = command->add_option("--validation-data", job.validation_data,
                                          "globs of held-out text or llm.c .bin files");
  command
      ->add_option("--validate-every", job.validate_every,
                   "steps between validations (0: only after the last step)")
      ->check(CLI::NonNegativeNumber)
      ->needs(data);
  command
      ->add_option("--validation-samples", job.validation_samples,
                   "most sequences of one validation")
      ->check(CLI::PositiveNumber)
      ->needs(data);
}

void AddScaling(CLI::App* command, core::Trainer& job) {
  command->add_flag(
      "--measure-scaling", job.measure_scaling,
      "rank 0 first makes five steps alone, and the speed of all ranks is compared with it");
}

void AddOptimizer(CLI::App* command, core::Trainer& job) {
  command->add_option("--learning-rate", job.learning_rate, "the highest")
      ->check(CLI::PositiveNumber);
  command->add_option("--warmup-steps", job.warmup_steps, "steps until the highest learning rate")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--decay-steps", job.decay_steps,
                   "steps of the cosine down to the lowest learning rate (0: all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--weight-decay", job.weight_decay, "of AdamW")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--clip", job.clip, "limit of the gradient's norm (0: no limit)")
      ->check(CLI::NonNegativeNumber);
  AddChoice(command, "--precision", job.precision, "precision of matrix products");
  AddChoice(command, "--device", job.device, "device: auto uses a GPU if it can");
  AddChoice(command, "--backend", job.backend,
            "communication of the ranks: auto follows the device");
}

void AddSync(CLI::App* command, TrainOptions& options) {
  command
      ->add_option("--pipeline", options.job.parallel.pipeline,
                   "ranks that have an equal part of the layers each")
      ->check(CLI::Range(1, 1024, "1..1024"));
  command
      ->add_option("--tensor", options.job.parallel.tensor,
                   "ranks that have an equal part of each layer's shards")
      ->check(CLI::Range(1, 1024, "1..1024"));
  command
      ->add_option("--tensor-shards", options.job.parallel.tensor_shards,
                   "parts in which layers are computed, for any number of ranks; decides the bits")
      ->check(CLI::Range(1, 1024, "1..1024"));
  AddChoice(command, "--sync", options.job.sync, "how ranks combine gradients");
  command->add_option("--server", options.job.servers, "a rank that serves parameters; repeatable")
      ->check(CLI::NonNegativeNumber);
  AddChoice(command, "--reduce", options.job.reduce,
            "tree: the same bits at every power-of-two world size; ring: Gloo's sum");
  command
      ->add_option("--bucket-mb", options.job.bucket_mb, "megabytes of gradients in one collective")
      ->check(CLI::Range(1, 1024, "1..1024"));
  command->add_option("--overlap", options.job.overlap, "send gradients while others are computed")
      ->check(CLI::IsMember({"on", "off"}).description(""))
      ->type_name("on|off")
      ->default_str("on");
  command
      ->add_option("--compare-every", options.compare_every,
                   "steps between comparisons of the replicas (0: never)")
      ->check(CLI::NonNegativeNumber);
  command->add_flag_callback(
      "--in-place", [&options] { options.job.recovery = core::Recovery::kInPlace; },
      "under an agent: if another rank dies, this process stays alive and gives its state to the "
      "new rank");
  command
      ->add_option("--collective-timeout", options.collective_timeout,
                   "seconds until a collective fails")
      ->check(CLI::PositiveNumber);
}

void AddFiles(CLI::App* command, TrainOptions& options) {
  command->add_option(
      "--checkpoint-dir", options.checkpoint_dir,
      "folder of checkpoints without an agent; an agent gives the job's checkpoint.path");
  command->add_option("--resume", options.resume,
                      "without an agent: auto, never, or the folder of a checkpoint");
  command
      ->add_option("--checkpoint-every", options.job.checkpoint_every,
                   "steps between checkpoints (0: only the last)")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--memory-every", options.job.memory_every,
                   "steps between checkpoints in memory, of a job that keeps them (0: none; "
                   "default: chosen)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--keep", options.keep, "checkpoints to keep (0: all)")
      ->check(CLI::NonNegativeNumber);
  command->add_option(
      "--metrics", options.metrics,
      "file for a line of JSON for each step of rank 0, or of each rank if its name has {rank}");
  command->add_option(
      "--tensorboard", options.tensorboard,
      "folder of TensorBoard's event files, or none (default: below the checkpoints)");
}

}  // namespace

void AddTrain(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "Train a GPT on text, as one rank of the gang");
  command->option_defaults()->always_capture_default();
  AddModel(command, *options);
  AddData(command, options->job);
  AddValidation(command, options->job);
  AddScaling(command, options->job);
  AddOptimizer(command, options->job);
  AddSync(command, *options);
  AddFiles(command, *options);
  command
      ->add_option("--max-skipped", options->max_skipped,
                   "steps in a row whose loss may be NaN or infinite")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--threads", options->threads,
                   "threads of this rank (0: OMP_NUM_THREADS, else all cores)")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--log-every", options->log_every, "steps between lines of the log (0: none)")
      ->check(CLI::NonNegativeNumber);
  command->callback([options, command, exit_code] {
    if (command->count("--layers") > 0) options->job.model_shape = options->sizes;
    *exit_code = Train(*options);
  });
}

}  // namespace lockstep::trainer
