#include "worker/trainer/run/validator.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "worker/trainer/data/find_files.h"

namespace lockstep::trainer {

namespace {

// Not the job's: of jobs with other seeds the losses are of the same sequences.
constexpr uint64_t kSeed = 0;

}  // namespace

Result<Validator> Validator::Open(const core::Trainer& job, const Shape& shape, int micro_batch) {
  Result<Dataset> data = Dataset::Open({.globs = job.validation_data,
                                        .sequence_length = shape.context,
                                        .vocabulary = shape.vocabulary,
                                        .at_least = micro_batch,
                                        .seed = kSeed,
                                        .use = Dataset::Use::kValidation});
  if (!data.ok()) return data.error();
  Validator validator(job, shape, micro_batch, std::move(*data));
  if (Status read = validator.CheckTokens(); !read.ok()) return read.error();
  return validator;
}

Validator::Validator(const core::Trainer& job, const Shape& shape, int micro_batch, Dataset data)
    : every_(job.validate_every),
      steps_(job.steps),
      micro_batch_(micro_batch),
      tokens_(static_cast<size_t>(shape.context)),
      data_(std::move(data)),
      micro_batches_(static_cast<int>(std::min(
          (job.validation_samples + micro_batch - 1) / micro_batch, data_.size() / micro_batch))) {}

Status Validator::Read(int index, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  for (int b = 0; b < micro_batch_; ++b) {
    const size_t from = static_cast<size_t>(b) * tokens_;
    Status read = data_.Read(int64_t{index} * micro_batch_ + b, inputs.subspan(from, tokens_),
                             targets.subspan(from, tokens_));
    if (!read.ok()) return read;
  }
  return {};
}

Status Validator::CheckTokens() const {
  std::vector<int32_t> inputs(static_cast<size_t>(micro_batch_) * tokens_);
  std::vector<int32_t> targets(inputs.size());
  for (int i = 0; i < micro_batches_; ++i) {
    if (Status read = Read(i, inputs, targets); !read.ok()) return read;
  }
  return {};
}

Result<Validation> Validator::Run(int64_t step, Engine& engine, const Mesh& mesh,
                                  collectives::Communicator& host,
                                  const std::function<void()>& alive) const {
  const Time began = BootTime();
  const int pipelines = mesh.pipelines();
  // Equal for all ranks: a place for each of a pipeline's micro-batches, of which some have one
  // less.
  const auto width = static_cast<size_t>((micro_batches_ + pipelines - 1) / pipelines);
  std::vector<float> mine(width);
  for (int i = mesh.pipeline(); i < static_cast<int>(width) * pipelines; i += pipelines) {
    // Where ranks share shards, all pipelines sum as often: one with a micro-batch less repeats
    // one.
    if (i >= micro_batches_ && mesh.tensor == 1) break;
    alive();
    Result<float> loss =
        engine.Loss(std::min(i, micro_batches_ - 1),
                    [this](int index, std::span<int32_t> inputs, std::span<int32_t> targets) {
                      return Read(index, inputs, targets);
                    });
    if (!loss.ok()) return loss.error();
    mine[static_cast<size_t>(i / pipelines)] = *loss;
  }
  std::vector<float> all(width * static_cast<size_t>(mesh.world));
  constexpr auto kType = collectives::DataType::kFloat32;
  Status gathered = host.AllGather({mine.data(), mine.size(), kType},
                                   {all.data(), all.size(), kType}, "validation");
  if (!gathered.ok()) return gathered.error();
  double sum = 0;
  for (int i = 0; i < micro_batches_; ++i) {
    const int has_loss = i % pipelines * mesh.ranks() + mesh.ranks() - 1;
    sum += static_cast<double>(
        all[static_cast<size_t>(has_loss) * width + static_cast<size_t>(i / pipelines)]);
  }
  return Validation{.step = step,
                    .loss = sum / micro_batches_,
                    .sequences = sequences(),
                    .took = BootTime() - began};
}

std::string TrainedOnAndHeldOut(const core::Trainer& job) {
  const auto files = [](const std::vector<std::string>& globs) {
    std::set<std::string> real;
    const Result<std::vector<std::string>> found = FindFiles(globs);
    if (!found.ok()) return real;
    for (const std::string& path : *found) {
      std::error_code code;
      real.insert(std::filesystem::canonical(path, code).string());
    }
    return real;
  };
  const std::set<std::string> trained_on = files(job.data);
  const std::set<std::string> held_out = files(job.validation_data);
  const auto both = std::ranges::find_if(
      held_out, [&](const std::string& path) { return trained_on.contains(path); });
  return both == held_out.end() ? "" : *both;
}

}  // namespace lockstep::trainer
