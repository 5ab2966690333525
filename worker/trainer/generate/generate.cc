#include "worker/trainer/generate/generate.h"

#include <cstdio>
#include <fstream>
#include <memory>
#include <span>
#include <utility>

#include "worker/trainer/checkpoint/checkpoint.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/cuda/cuda_decoder.h"
#include "worker/trainer/cuda/engine/cuda_engine.h"
#include "worker/trainer/generate/prompts.h"
#include "worker/trainer/link/agent_link.h"
#include "worker/trainer/model/decode.h"
#include "worker/trainer/process/environment.h"
#include "worker/trainer/process/exit_code.h"
#include "worker/trainer/run/options.h"
#include "worker/trainer/saving/checkpoint_line.h"

namespace lockstep::trainer {

namespace {

constexpr int kBytes = 256;  // the vocabulary of byte-level models

// The newest checkpoint that can be read.
Result<LoadedModel> Load(const GenerateOptions& options, const Environment& environment,
                         AgentLink& agent) {
  CheckpointLine::Options where{.folder = options.checkpoint_dir, .resume = "auto"};
  if (options.checkpoint_dir.empty()) {
    where.resume = options.checkpoint.empty() ? environment.resume_dir : options.checkpoint;
  }
  Result<CheckpointLine::Candidates> candidates =
      CheckpointLine(std::move(where), agent).ToResumeFrom();
  if (!candidates.ok()) return candidates.error();
  Error why = Error::Invalid(
      "there is no checkpoint to generate with; name one with --checkpoint or --checkpoint-dir, or "
      "in a job with checkpoint.resume");
  for (const std::string& folder : candidates->folders) {
    Result<LoadedModel> model = ReadModel(folder);
    if (model.ok()) return model;
    Warn("checkpoint skipped: " + model.error().message);
    why = model.error();
  }
  return why;
}

// On a GPU; null: on the CPUs.
Result<std::unique_ptr<TokenReader>> OpenOnGpu(core::Device device, const LoadedModel& model,
                                               int index) {
  std::unique_ptr<TokenReader> none;
  if (device == core::Device::kCpu) return none;
  const bool must = device == core::Device::kCuda;
  if (Status may = CudaGpt::Check(model.shape, 1); !may.ok()) {
    if (must) return may.error();
    return none;
  }
  Result<Gpu> gpu = Gpu::Open(index);
  if (!gpu.ok()) {
    if (must || gpu.error().kind != ErrorKind::kNotFound) return gpu.error();
    if (collectives::CudaDriver::IsInstalled()) Warn("on CPUs: " + gpu.error().message);
    return none;
  }
  Result<std::unique_ptr<CudaDecoder>> decoder = CudaDecoder::Create(
      gpu->device, gpu->blas, std::move(gpu->kernels), model.shape, model.parameters);
  if (!decoder.ok()) return decoder.error();
  return std::unique_ptr<TokenReader>(std::move(*decoder));
}

// What follows `prompt`, which is the `index`-th of all.
Result<std::string> GoOn(const GenerateOptions& options, TokenReader& model,
                         const std::string& prompt, size_t index) {
  model.Reset();
  Sampler sampler(options.sample, static_cast<uint64_t>(options.seed) + index);
  std::vector<int32_t> tokens;
  for (const char byte : prompt.empty() ? std::string("\n") : prompt) {
    tokens.push_back(static_cast<unsigned char>(byte));
  }
  std::string text;
  while (text.size() < static_cast<size_t>(options.tokens)) {
    Result<std::span<const float>> logits = model.Read(tokens);
    if (!logits.ok()) return logits.error();
    tokens = {sampler.Next(*logits)};
    text += static_cast<char>(tokens.front());
  }
  return text;
}

Status Print(const GenerateOptions& options, const std::string& texts) {
  if (options.output.empty()) {
    std::fwrite(texts.data(), 1, texts.size(), stdout);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
    return Error::Unavailable("the text could not be written to standard output");
  }
  std::ofstream file(options.output, std::ios::trunc);
  file << texts;
  file.close();
  if (!file) return Error::Unavailable("cannot write " + options.output);
  return {};
}

// Everything but the way out: the exit code is 0 when this is ok.
Status Work(const GenerateOptions& options) {
  std::vector<std::string> prompts = options.prompts;
  Result<std::vector<std::string>> read = std::vector<std::string>();
  if (!options.files.empty()) read = ReadPrompts(options.files);
  if (!read.ok()) return read.error();
  prompts.insert(prompts.end(), read->begin(), read->end());
  if (prompts.empty()) return Error::Invalid("there is no prompt; use --prompt or --prompts");

  Result<collectives::Options> connection = collectives::OptionsFromEnvironment();
  if (!connection.ok()) return connection.error();
  const Environment environment = ReadEnvironment();
  AgentLink agent(environment.socket, connection->rank);
  Result<LoadedModel> model = Load(options, environment, agent);
  if (!model.ok()) return model.error();
  if (model->shape.vocabulary != kBytes) {
    return Error::Invalid("the model has " + std::to_string(model->shape.vocabulary) +
                          " tokens, and lockstep-trainer understands only bytes; open its folder "
                          "with Hugging Face's transformers");
  }
  Result<std::unique_ptr<TokenReader>> reader =
      OpenOnGpu(options.device, *model, connection->local_rank);
  if (!reader.ok()) return reader.error();
  Threads threads(ThreadCount(options.threads));
  if (*reader == nullptr) {
    *reader = std::make_unique<Decoder>(model->shape, model->parameters, threads);
  }
  connection->backend = collectives::Backend::kGloo;
  Result<std::unique_ptr<collectives::Communicator>> all = collectives::Connect(*connection);
  if (!all.ok()) return all.error();

  const auto rank = static_cast<size_t>((*all)->rank());
  const auto world = static_cast<size_t>((*all)->world());
  const size_t first = prompts.size() * rank / world;
  const size_t end = prompts.size() * (rank + 1) / world;
  const bool json = options.json || !options.files.empty();
  std::string mine;
  for (size_t i = first; i < end; ++i) {
    Result<std::string> text = GoOn(options, **reader, prompts[i], i);
    if (!text.ok()) return text.error();
    mine += json ? ResultLine(prompts[i], *text) : prompts[i] + *text + "\n";
    agent.Report({{"step", static_cast<double>(i + 1 - first)},
                  {"total_steps", static_cast<double>(end - first)},
                  {"tokens", options.tokens}});
  }
  Result<std::string> texts = GatherTexts(mine, **all);
  if (!texts.ok()) return texts.error();
  Status printed = rank == 0 ? Print(options, *texts) : Status();
  if (!printed.ok()) return printed;
  return (*all)->Finish();
}

}  // namespace

int Generate(const GenerateOptions& options) {
  Status done = Work(options);
  if (done.ok()) return core::kExitSuccess;
  Complain(done.error());
  return ExitCodeOf(done.error());
}

}  // namespace lockstep::trainer
