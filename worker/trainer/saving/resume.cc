#include "worker/trainer/saving/resume.h"

#include <algorithm>

#include "worker/trainer/model/gpt.h"
#include "worker/trainer/process/exit_code.h"

namespace lockstep::trainer {

namespace {

void WarnOfDifferences(const std::string& folder, const Manifest& found, const Manifest& expected) {
  const auto check = [&](bool same, const std::string& what) {
    if (!same) Warn(folder + " was written with " + what);
  };
  check(found.data == expected.data, "other data: its position counts sequences of that data");
  check(found.seed == expected.seed,
        "seed " + std::to_string(found.seed) + ": the order of the data changes here");
  check(found.global_batch == expected.global_batch,
        "globalBatchSize " + std::to_string(found.global_batch) + ", this run has " +
            std::to_string(expected.global_batch));
  check(found.micro_batch == expected.micro_batch,
        "microBatchSize " + std::to_string(found.micro_batch) + ", this run has " +
            std::to_string(expected.micro_batch) + ": the same data, but not the same bits");
  check(found.tensor_shards == expected.tensor_shards,
        "tensorShards " + std::to_string(found.tensor_shards) + ", this run has " +
            std::to_string(expected.tensor_shards) + ": the same data, but not the same bits");
  check(found.precision == expected.precision, "precision " + found.precision);
  check(found.instruction_set == expected.instruction_set,
        "the instructions of " + found.instruction_set + ", here is " + expected.instruction_set +
            ": the same run, but not the same bits");
}

Position PositionIn(const Manifest& manifest) {
  return {manifest.step, manifest.cursor, manifest.optimizer_steps, manifest.skipped,
          manifest.validated};
}

// A folder that somebody else wrote: its weights, at step 0.
Status ReadForeign(const std::string& folder, Replica& replica) {
  Result<LoadedModel> model = ReadModel(folder);
  if (!model.ok()) return model.error();
  Shape shape = model->shape;
  // Fewer positions than it was trained with will do; their embeddings come first.
  if (shape.context > replica.shape.context) shape.context = replica.shape.context;
  if (shape != replica.shape) {
    return Error::Invalid(folder + " holds a model of " + ToString(model->shape) +
                          "; this run's has " + ToString(replica.shape));
  }
  const std::vector<Parameter> theirs = Parameters(model->shape);
  for (size_t i = 0; i < theirs.size(); ++i) {
    const auto from = model->parameters.begin() + static_cast<std::ptrdiff_t>(theirs[i].offset);
    std::copy_n(from, replica.layout[i].size,
                replica.parameters.begin() + static_cast<std::ptrdiff_t>(replica.layout[i].offset));
  }
  return {};
}

Result<Position> ReadNamed(const std::string& folder, const Manifest& expected, Replica& replica) {
  Result<Manifest> manifest = ReadCheckpoint(folder, replica.shape, replica.state());
  if (manifest.ok()) {
    WarnOfDifferences(folder, *manifest, expected);
    return PositionIn(*manifest);
  }
  if (manifest.error().kind != ErrorKind::kNotFound) return manifest.error();
  Status read = ReadForeign(folder, replica);
  if (!read.ok()) return read.error();
  Warn(folder +
       " has no manifest of Lockstep: its weights are used, and training begins at step 0");
  return Position{};
}

Result<Position> ReadNewest(const CheckpointLine::Candidates& candidates, const Manifest& expected,
                            Replica& replica) {
  std::string first;
  for (const std::string& folder : candidates.folders) {
    Result<Manifest> manifest = ReadCheckpoint(folder, replica.shape, replica.state());
    if (manifest.ok()) {
      WarnOfDifferences(folder, *manifest, expected);
      return PositionIn(*manifest);
    }
    Warn("checkpoint skipped: " + manifest.error().message);
    if (first.empty()) first = manifest.error().message;
  }
  return Error::Invalid("none of " + std::to_string(candidates.folders.size()) +
                        " checkpoints can be used (" + first +
                        "); repair one, or begin anew with resume: Never");
}

Result<Position> Begin(const CheckpointLine& line, const Manifest& expected, Replica& replica) {
  Result<CheckpointLine::Candidates> candidates = line.ToResumeFrom();
  if (!candidates.ok()) return candidates.error();
  if (candidates->folders.empty()) {
    InitialiseParameters(replica.shape, expected.seed, replica.parameters);
    return Position{};
  }
  if (candidates->named) return ReadNamed(candidates->folders.front(), expected, replica);
  return ReadNewest(*candidates, expected, replica);
}

}  // namespace

Result<Position> Resume(const CheckpointLine& line, const Manifest& expected, Replica& replica,
                        Replica* whole, const Mesh& mesh, collectives::Communicator& all,
                        Threads& threads) {
  struct Message {
    Position position;
    int64_t failed = 0;
  } message;
  std::string why = "rank 0 could not begin";
  if (all.rank() == 0) {
    Result<Position> begun = Begin(line, expected, whole == nullptr ? replica : *whole);
    message.failed = begun.ok() ? 0 : 1;
    if (begun.ok()) message.position = *begun;
    if (!begun.ok()) why = begun.error().message;
  }
  Status told =
      all.Broadcast({&message, sizeof message, collectives::DataType::kByte}, 0, "position");
  if (!told.ok()) return told.error();
  if (message.failed != 0) return Error::Invalid(why);
  Status copied = DealReplica(whole, replica, mesh, all, threads);
  if (!copied.ok()) return copied.error();
  return message.position;
}

}  // namespace lockstep::trainer
