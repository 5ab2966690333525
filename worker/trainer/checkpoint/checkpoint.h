// A training run's state in a folder that Hugging Face opens.
//
//   model.safetensors config.json generation_config.json tokenizer.json tokenizer_config.json
//   optimizer.safetensors    exp_avg.<name> and exp_avg_sq.<name>, F32
//   manifest.json            the rest, and a checksum of every file above
//
// The folder counts as complete only with its manifest, which is written last.
#ifndef LOCKSTEP_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_H_
#define LOCKSTEP_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "worker/trainer/model/shape.h"

namespace lockstep::trainer {

inline constexpr const char* kModelFile = "model.safetensors";

// What the manifest says of the run.
struct Manifest {
  int64_t step = 0;             // steps done
  int64_t cursor = 0;           // sequences consumed
  int64_t optimizer_steps = 0;  // t of AdamW: steps less the skipped ones
  int64_t skipped = 0;          // for a loss that was no number
  int64_t validated = 0;        // the last step that was validated; 0: none was
  uint64_t seed = 0;
  double loss = 0;  // of the last step
  std::string job_uid;
  std::string generation;
  std::string instruction_set;
  std::string precision;
  std::string data;  // Dataset::Fingerprint
  int world = 0;
  int pipeline = 1;  // stages; the state is the whole model's, and fits any number of them
  int tensor = 1;    // and of ranks that share a stage's shards
  int tensor_shards = 1;
  int64_t global_batch = 0;
  int64_t micro_batch = 0;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

struct TrainingState {  // flat, as Parameters(shape) arranges them
  std::span<float> parameters;
  std::span<float> moment1;
  std::span<float> moment2;
};
struct ConstTrainingState {
  std::span<const float> parameters;
  std::span<const float> moment1;
  std::span<const float> moment2;
};

// Writes all files into `folder`, which it makes, and syncs them and the folder. An error (disk
// full, ...) names the file; what was written is removed.
Status WriteCheckpoint(const std::string& folder, const Shape& shape, ConstTrainingState state,
                       const Manifest& manifest);

// Reads and verifies `folder` into `state`. kNotFound: no manifest; kInvalid: torn, corrupt, or of
// another shape, with both shapes.
Result<Manifest> ReadCheckpoint(const std::string& folder, const Shape& shape, TrainingState state);

// Only the model, also of a folder that Hugging Face wrote (no manifest): for generate, and for
// `resume: PATH` of a foreign folder. The shape is config.json's.
struct LoadedModel {
  Shape shape;
  std::vector<float> parameters;
};
Result<LoadedModel> ReadModel(const std::string& folder);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_H_
