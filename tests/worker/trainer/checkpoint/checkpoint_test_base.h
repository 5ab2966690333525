// A folder that is gone in the end, and the state of a tiny model to save in it.
#ifndef LOCKSTEP_TESTS_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_TEST_BASE_H_
#define LOCKSTEP_TESTS_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_TEST_BASE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "worker/trainer/checkpoint/checkpoint.h"

namespace lockstep::trainer {

inline constexpr Shape kTiny = {
    .layers = 2, .heads = 2, .width = 8, .vocabulary = 256, .context = 16};

struct OwnedState {
  explicit OwnedState(const Shape& shape, float first = 0)
      : parameters(ParameterCount(shape)), moment1(parameters.size()), moment2(parameters.size()) {
    std::iota(parameters.begin(), parameters.end(), first);
    std::iota(moment1.begin(), moment1.end(), first + 0.25F);
    std::iota(moment2.begin(), moment2.end(), first + 0.5F);
  }

  TrainingState view() { return {parameters, moment1, moment2}; }
  ConstTrainingState saved() const { return {parameters, moment1, moment2}; }

  friend bool operator==(const OwnedState&, const OwnedState&) = default;

  std::vector<float> parameters;
  std::vector<float> moment1;
  std::vector<float> moment2;
};

inline Manifest SomeManifest() {
  return {.step = 1200,
          .cursor = 19200,
          .optimizer_steps = 1199,
          .skipped = 1,
          .validated = 1100,
          .seed = 0xFFFFFFFFFFFFFFFF,
          .loss = 2.345678901234567,
          .job_uid = "8c1f",
          .generation = "2-5",
          .instruction_set = "avx512_core_bf16",
          .precision = "fp32",
          .data = "2 files, 64 tokens in sequences of 4, sha256 0123456789abcdef",
          .world = 4,
          .global_batch = 16,
          .micro_batch = 2};
}

class CheckpointTestBase : public ::testing::Test {
 protected:
  CheckpointTestBase() {
    std::string pattern = ::testing::TempDir() + "checkpoint-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~CheckpointTestBase() override { std::filesystem::remove_all(root_); }

  std::string Path(const std::string& name) const { return root_ + "/" + name; }

  static std::string ReadText(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  static void WriteText(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }

  // A checkpoint of kTiny; its path.
  std::string Write(const std::string& name, const OwnedState& state = OwnedState(kTiny)) const {
    Status written = WriteCheckpoint(Path(name), kTiny, state.saved(), SomeManifest());
    EXPECT_TRUE(written.ok()) << written.error().message;
    return Path(name);
  }

  std::string root_;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_TESTS_WORKER_TRAINER_CHECKPOINT_CHECKPOINT_TEST_BASE_H_
