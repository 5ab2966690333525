#include "core/plan/trainer_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plan/environment.h"
#include "core/plan/plan.h"

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TrainerCommand, SaysWhatTheJobSaysAsJson) {
  Spec spec;
  Trainer& trainer = spec.trainer.emplace();
  trainer.data = {"/data/*.txt", "/more/a b.txt"};
  trainer.micro_batch_size = 2;
  EXPECT_THAT(TrainerCommand(spec),
              ElementsAre("lockstep-trainer", "job",
                          R"({"data":["/data/*.txt","/more/a b.txt"],"microBatchSize":2})"));
}

TEST(TrainerCommand, IsReadBackByTheTrainerAsItWas) {
  Spec spec;
  Trainer& trainer = spec.trainer.emplace();
  trainer.mode = TrainerMode::kGenerate;
  trainer.prompts = {"/data/prompts.txt"};
  trainer.model_shape = {.layers = 2, .heads = 4, .width = 64, .vocabulary = 256};
  trainer.learning_rate = 0.1 + 0.2;
  trainer.precision = Precision::kBf16;
  trainer.device = Device::kCpu;
  trainer.backend = Backend::kGloo;
  trainer.sync = Sync::kParameterServer;
  trainer.servers = {1, 3};
  trainer.reduce = Reduce::kRing;
  trainer.overlap = false;
  trainer.validation_data = {"/data/held-out.txt"};
  trainer.validate_every = 50;
  trainer.validation_samples = 64;
  trainer.measure_scaling = true;
  trainer.recovery = Recovery::kInPlace;
  const Result<Trainer> read = ParseTrainer(TrainerCommand(spec).back());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, trainer);
}

TEST(TrainerCommand, OfAJobThatAsksForGpusNeverMakesDoWithCpus) {
  TrainingJob job;
  job.spec.trainer.emplace().data = {"a"};
  EXPECT_EQ(TrainerCommand(job.spec).back(), R"({"data":["a"]})");
  job.spec.resources_per_process.gpu = 0;
  EXPECT_EQ(TrainerCommand(job.spec).back(), R"({"data":["a"]})");
  job.spec.resources_per_process.gpu = 1;
  const std::string on_gpus = R"({"data":["a"],"device":"Cuda"})";
  EXPECT_EQ(TrainerCommand(job.spec).back(), on_gpus);
  EXPECT_EQ(BuildCommand(job, {}).back(), on_gpus);
  EXPECT_EQ(MakePlan(job).command.back(), on_gpus);
  EXPECT_EQ(job.spec.trainer->device, Device::kAuto);
}

TEST(TrainerCommand, ThatTheTrainerDoesNotUnderstandIsRefusedWithTheField) {
  EXPECT_THAT(ParseTrainer(R"({"stpes": 3})").error().message, HasSubstr("spec.trainer.stpes"));
  EXPECT_THAT(ParseTrainer(R"({"sync": "Gossip"})").error().message,
              HasSubstr("spec.trainer.sync"));
  EXPECT_FALSE(ParseTrainer("").ok());
  EXPECT_FALSE(ParseTrainer("[]").ok());
}

TEST(TrainerCommand, IsWhatAJobWithoutACommandRunsAndPlans) {
  TrainingJob job;
  job.spec.trainer.emplace().data = {"a"};
  EXPECT_EQ(BuildCommand(job, {}), TrainerCommand(job.spec));
  EXPECT_EQ(MakePlan(job).command, TrainerCommand(job.spec));
}

}  // namespace
}  // namespace lockstep::core
