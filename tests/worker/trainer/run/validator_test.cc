#include "worker/trainer/run/validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer::validator_test {
namespace {

namespace fs = std::filesystem;
using collectives::Communicator;
using testing::AllOf;
using testing::HasSubstr;

constexpr Shape kShape = {.layers = 4, .heads = 2, .width = 32, .vocabulary = 128, .context = 8};
constexpr int kMicroBatch = 2;
const auto kSilent = [] {};

// A loss that is its micro-batch's number and first token.
class StandIn : public Engine {
 public:
  Result<StepResult> Step(const StepOptions&, const ReadBatch&) override { return StepResult(); }
  Result<float> Loss(int index, const ReadBatch& read) override {
    std::vector<int32_t> inputs(kMicroBatch * 8);
    std::vector<int32_t> targets(inputs.size());
    if (Status filled = read(index, inputs, targets); !filled.ok()) return filled.error();
    indices.push_back(index);
    return static_cast<float>(index) + static_cast<float>(inputs.front()) / 128;
  }
  Status UpdateReplica() override { return {}; }
  Status Quiesce() override { return {}; }
  Status KeepReplica() override { return {}; }
  Result<uint64_t> HashOfReplica() override { return uint64_t{0}; }

  std::vector<int> indices;
};

class ValidatorTest : public testing::Test {
 protected:
  ValidatorTest() {
    std::string pattern = testing::TempDir() + "validator-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    job_.steps = 20;
    job_.validation_data = {Text("held-out", 8 * 21 + 1)};
  }
  ~ValidatorTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Text(const std::string& name, int length, char odd = 'x') {
    std::ofstream file(Path(name), std::ios::binary);
    for (int i = 0; i < length; ++i) file << (i == 1 ? odd : static_cast<char>('a' + i * i % 26));
    return Path(name);
  }

  Result<Validator> Open() const { return Validator::Open(job_, kShape, kMicroBatch); }
  Error ErrorOf() const {
    const Result<Validator> validator = Open();
    EXPECT_FALSE(validator.ok());
    return validator.ok() ? Error{} : validator.error();
  }

  // By rank, of a mesh whose ranks hold the same model.
  std::map<int, double> LossesOf(int world, const core::Parallel& parallel) const {
    const Result<Validator> validator = Open();
    EXPECT_TRUE(validator.ok());
    std::map<int, double> losses;
    std::mutex mutex;
    collectives::RunRanks(world, [&](Communicator& all) {
      Threads threads(1);
      const Mesh mesh = Mesh::Of(parallel, all.rank(), world);
      Replica part(kShape, mesh.stage());
      DealModel(mesh, all, threads, part);
      EngineOptions options;
      options.batch = *PlanBatches(16, kMicroBatch, mesh.rank, world, mesh.ranks());
      options.sync_options = {.servers = {}, .parallel = parallel};
      const Result<std::unique_ptr<Engine>> engine = MakeCpuEngine(options, part, all, threads);
      ASSERT_TRUE(engine.ok()) << engine.error().message;
      const Result<Validation> done = validator->Run(7, **engine, mesh, all, kSilent);
      ASSERT_TRUE(done.ok()) << done.error().message;
      EXPECT_EQ(done->step, 7);
      const std::scoped_lock lock(mutex);
      losses[all.rank()] = done->loss;
    });
    return losses;
  }

  static void DealModel(const Mesh& mesh, Communicator& all, Threads& threads, Replica& part) {
    Replica whole(kShape);
    InitialiseParameters(kShape, 3, whole.parameters);
    if (mesh.stage().is_model()) {
      part.parameters = whole.parameters;
      return;
    }
    const Status dealt = DealReplica(all.rank() == 0 ? &whole : nullptr, part, mesh, all, threads);
    ASSERT_TRUE(dealt.ok()) << dealt.error().message;
  }

  std::string folder_;
  core::Trainer job_;
};

TEST_F(ValidatorTest, TakesWholeMicroBatchesOfWhatThereIsUpToSoManySequences) {
  EXPECT_EQ(Open()->sequences(), 20);  // of 21
  job_.validation_samples = 7;
  EXPECT_EQ(Open()->sequences(), 8);
  job_.validation_samples = 1;
  EXPECT_EQ(Open()->sequences(), 2);
}

TEST_F(ValidatorTest, IsDueEverySoManyStepsAndAtTheEnd) {
  const auto due = [&] {
    std::vector<int64_t> steps;
    for (int64_t step = 0; step <= 21; ++step) {
      if (Open()->IsDue(step)) steps.push_back(step);
    }
    return steps;
  };
  EXPECT_EQ(due(), (std::vector<int64_t>{20}));
  job_.validate_every = 8;
  EXPECT_EQ(due(), (std::vector<int64_t>{8, 16, 20}));
}

TEST_F(ValidatorTest, DealsTheMicroBatchesOutAndAddsThemUpInTheirOrder) {
  std::mutex mutex;
  std::map<int, std::vector<int>> indices;
  const Result<Validator> validator = Open();
  collectives::RunRanks(3, [&](Communicator& all) {
    StandIn engine;
    int alive = 0;
    const Result<Validation> done =
        validator->Run(1, engine, {all.rank(), 3, 1}, all, [&] { ++alive; });
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(alive, static_cast<int>(engine.indices.size()));
    EXPECT_EQ(std::floor(done->loss), 5);  // the mean of 0 to 9 is 4.5, and the tokens'
    EXPECT_DOUBLE_EQ(done->perplexity(), std::exp(done->loss));
    EXPECT_EQ(done->sequences, 20);
    const std::scoped_lock lock(mutex);
    indices[all.rank()] = engine.indices;
  });
  EXPECT_EQ(indices,
            (std::map<int, std::vector<int>>{{0, {0, 3, 6, 9}}, {1, {1, 4, 7}}, {2, {2, 5, 8}}}));
}

TEST_F(ValidatorTest, TakesTheSameSequencesWhateverTheJobsSeed) {
  const double loss = LossesOf(1, {})[0];
  job_.seed = 4711;
  EXPECT_EQ(LossesOf(1, {})[0], loss);
}

TEST_F(ValidatorTest, HasTheSameBitsForEveryFactorisationOfTheWorld) {
  const double alone = LossesOf(1, {})[0];
  EXPECT_GT(alone, 4);
  for (const auto& [world, stages] :
       {std::pair(2, 1), std::pair(4, 1), std::pair(2, 2), std::pair(4, 2), std::pair(4, 4)}) {
    std::map<int, double> expected;
    for (int rank = 0; rank < world; ++rank) expected[rank] = alone;
    EXPECT_EQ(LossesOf(world, {stages}), expected) << world << " in pipelines of " << stages;
  }
}

// Ten micro-batches: of four pipelines two have one less, and sum shards as often all the same.
TEST_F(ValidatorTest, HasTheSameBitsHoweverManyRanksShareTheShards) {
  const double alone = LossesOf(1, {1, 1, 2})[0];
  EXPECT_GT(alone, 4);
  for (const auto& [world, stages] : {std::pair(2, 1), std::pair(8, 1), std::pair(8, 2)}) {
    std::map<int, double> expected;
    for (int rank = 0; rank < world; ++rank) expected[rank] = alone;
    EXPECT_EQ(LossesOf(world, {stages, 2, 2}), expected) << world << ", " << stages << " stages";
  }
}

TEST_F(ValidatorTest, SaysBeforeTrainingWhatIsWrongWithItsData) {
  job_.validation_data = {Path("*.txt")};
  EXPECT_THAT(ErrorOf().message, "validationData: nothing matches " + Path("*.txt") +
                                     "; check the path, and that its volume is mounted in every "
                                     "process");
  job_.validation_data = {Text("short", 8 * 2)};
  EXPECT_EQ(ErrorOf().kind, ErrorKind::kInvalid);
  EXPECT_THAT(ErrorOf().message,
              AllOf(HasSubstr("validationData: 1 file(s) with 16 tokens hold 1 sequences of 8"),
                    HasSubstr("a micro-batch takes 2"), HasSubstr("lower microBatchSize")));
  job_.validation_data = {Text("foreign", 8 * 4 + 1, '\x81')};
  EXPECT_THAT(ErrorOf().message,
              AllOf(HasSubstr("validationData: " + Path("foreign") + ": token 1 is 129"),
                    HasSubstr("vocabulary is 128")));
}

TEST_F(ValidatorTest, NamesAFileThatIsTrainedOnAsWell) {
  job_.data = {Text("texts", 9), Text("more", 9)};
  EXPECT_EQ(TrainedOnAndHeldOut(job_), "");
  job_.data = {Path("*")};
  EXPECT_EQ(TrainedOnAndHeldOut(job_), fs::canonical(Path("held-out")).string());
}

}  // namespace
}  // namespace lockstep::trainer::validator_test
