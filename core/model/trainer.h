// spec.trainer: the settings of the built-in trainer, from a job or its command line.
#ifndef LOCKSTEP_CORE_MODEL_TRAINER_H_
#define LOCKSTEP_CORE_MODEL_TRAINER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/fields.h"
#include "base/text/enum_names.h"

namespace lockstep::core {

inline constexpr int64_t kMostSteps = 1'000'000'000'000;

enum class Model : uint8_t { kNano, kMicro, kGpt2 };
enum class Precision : uint8_t { kFp32, kBf16 };
enum class Device : uint8_t { kAuto, kCpu, kCuda };    // kAuto: a GPU where there is one
enum class Backend : uint8_t { kAuto, kGloo, kNccl };  // kAuto: NCCL where GPU, driver, libnccl are
enum class Sync : uint8_t { kAllReduce, kParameterServer };
enum class Reduce : uint8_t { kTree, kRing, kNccl };
// What the other ranks do if one dies: start anew, or keep their processes.
enum class Recovery : uint8_t { kRestart, kInPlace };
enum class TrainerMode : uint8_t { kTrain, kGenerate };

struct ModelShape {
  int32_t layers = 0;
  int32_t heads = 0;
  int32_t width = 0;  // a multiple of heads
  int32_t vocabulary = 0;

  friend bool operator==(const ModelShape&, const ModelShape&) = default;
};

// How the ranks share one model's work; the rest of the world is data parallel.
struct Parallel {
  int32_t pipeline = 1;       // ranks that have an equal part of the layers each
  int32_t tensor = 1;         // ranks that have an equal part of each layer's shards
  int32_t tensor_shards = 1;  // parts in which layers are computed, for any number of ranks

  friend bool operator==(const Parallel&, const Parallel&) = default;
};

struct Trainer {
  Model model = Model::kNano;
  std::optional<ModelShape> model_shape;  // in place of the model's own
  std::vector<std::string> data;          // globs of text or llm.c .bin files
  int64_t steps = 1000;
  int32_t global_batch_size = 16;           // sequences a step, the whole job
  std::optional<int32_t> micro_batch_size;  // sequences a process at a time; absent: chosen
  int32_t sequence_length = 128;
  double learning_rate = 3e-4;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // 0: steps
  double weight_decay = 0.1;
  double clip = 1.0;  // of the gradient's norm; 0: off
  int64_t seed = 1337;
  Precision precision = Precision::kFp32;
  Device device = Device::kAuto;
  Backend backend = Backend::kAuto;
  Sync sync = Sync::kAllReduce;
  std::vector<int32_t> servers = {0};  // of the parameter server: ranks
  Reduce reduce = Reduce::kTree;
  Parallel parallel;
  int32_t bucket_mb = 25;
  bool overlap = true;
  int64_t checkpoint_every = 100;  // steps; 0: only the last
  // Steps between checkpoints in memory, where the job keeps any; 0: none; absent: as often as they
  // cost 2 % of the time.
  std::optional<int64_t> memory_every;
  std::vector<std::string> validation_data;  // globs, like `data`; empty: nothing is held out
  int64_t validate_every = 0;                // steps; 0: only after the last
  int64_t validation_samples = 256;          // sequences of it, at most
  bool measure_scaling = false;              // compare the speed of all ranks with rank 0's alone
  Recovery recovery = Recovery::kRestart;
  TrainerMode mode = TrainerMode::kTrain;
  std::vector<std::string> prompts;  // globs of text files, a prompt a line

  friend bool operator==(const Trainer&, const Trainer&) = default;
};

// clang-format off
template <> inline constexpr auto kEnumNames<Model> = std::to_array<EnumName<Model>>(
    {{Model::kNano, "nano"}, {Model::kMicro, "micro"}, {Model::kGpt2, "gpt2"}});
template <> inline constexpr auto kEnumNames<Precision> = std::to_array<EnumName<Precision>>(
    {{Precision::kFp32, "Fp32"}, {Precision::kBf16, "Bf16"}});
template <> inline constexpr auto kEnumNames<Device> = std::to_array<EnumName<Device>>(
    {{Device::kAuto, "Auto"}, {Device::kCpu, "Cpu"}, {Device::kCuda, "Cuda"}});
template <> inline constexpr auto kEnumNames<Backend> = std::to_array<EnumName<Backend>>(
    {{Backend::kAuto, "Auto"}, {Backend::kGloo, "Gloo"}, {Backend::kNccl, "Nccl"}});
template <> inline constexpr auto kEnumNames<Sync> = std::to_array<EnumName<Sync>>(
    {{Sync::kAllReduce, "AllReduce"}, {Sync::kParameterServer, "ParameterServer"}});
template <> inline constexpr auto kEnumNames<Reduce> = std::to_array<EnumName<Reduce>>(
    {{Reduce::kTree, "Tree"}, {Reduce::kRing, "Ring"}, {Reduce::kNccl, "Nccl"}});
template <> inline constexpr auto kEnumNames<Recovery> = std::to_array<EnumName<Recovery>>(
    {{Recovery::kRestart, "Restart"}, {Recovery::kInPlace, "InPlace"}});
template <> inline constexpr auto kEnumNames<TrainerMode> = std::to_array<EnumName<TrainerMode>>(
    {{TrainerMode::kTrain, "Train"}, {TrainerMode::kGenerate, "Generate"}});
// clang-format on

template <>
inline constexpr auto kFields<ModelShape> =
    std::tuple(Field{"layers", &ModelShape::layers, Required{}, Between{1, 1024}},
               Field{"heads", &ModelShape::heads, Required{}, Between{1, 1024}},
               Field{"width", &ModelShape::width, Required{}, Between{1, 65536}},
               Field{"vocabulary", &ModelShape::vocabulary, Required{}, Between{1, 1 << 24}});

template <>
inline constexpr auto kFields<Parallel> =
    std::tuple(Field{"pipeline", &Parallel::pipeline, Between{1, 1024}},
               Field{"tensor", &Parallel::tensor, Between{1, 1024}},
               Field{"tensorShards", &Parallel::tensor_shards, Between{1, 1024}});

template <>
inline constexpr auto kFields<Trainer> = std::tuple(
    Field{"mode", &Trainer::mode}, Field{"model", &Trainer::model},
    Field{"modelShape", &Trainer::model_shape}, Field{"data", &Trainer::data, AtMost{256, 4096}},
    Field{"steps", &Trainer::steps, Between{1, kMostSteps}},
    Field{"globalBatchSize", &Trainer::global_batch_size, Between{1}},
    Field{"microBatchSize", &Trainer::micro_batch_size, Between{1}},
    Field{"sequenceLength", &Trainer::sequence_length, Between{1, 1 << 20}},
    Field{"learningRate", &Trainer::learning_rate},
    Field{"warmupSteps", &Trainer::warmup_steps, Between{0, kMostSteps}},
    Field{"decaySteps", &Trainer::decay_steps, Between{0, kMostSteps}},
    Field{"weightDecay", &Trainer::weight_decay}, Field{"clip", &Trainer::clip},
    Field{"seed", &Trainer::seed}, Field{"precision", &Trainer::precision},
    Field{"device", &Trainer::device}, Field{"backend", &Trainer::backend},
    Field{"sync", &Trainer::sync}, Field{"servers", &Trainer::servers, AtMost{1024}},
    Field{"reduce", &Trainer::reduce}, Field{"parallel", &Trainer::parallel},
    Field{"bucketMb", &Trainer::bucket_mb, Between{1, 1024}}, Field{"overlap", &Trainer::overlap},
    Field{"checkpointEvery", &Trainer::checkpoint_every, Between{0, kMostSteps}},
    Field{"memoryEvery", &Trainer::memory_every, Between{0, kMostSteps}},
    Field{"validationData", &Trainer::validation_data, AtMost{256, 4096}},
    Field{"validateEvery", &Trainer::validate_every, Between{0, kMostSteps}},
    Field{"validationSamples", &Trainer::validation_samples, Between{1, 1'000'000}},
    Field{"measureScaling", &Trainer::measure_scaling}, Field{"recovery", &Trainer::recovery},
    Field{"prompts", &Trainer::prompts, AtMost{256, 4096}});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_TRAINER_H_
