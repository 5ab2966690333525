#include "core/plan/trainer_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/plan/environment.h"
#include "core/plan/plan.h"

namespace lockstep::core {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

TEST(TrainerCommand, SaysEverythingThatTheJobSays) {
  Trainer trainer;
  trainer.data = {"/data/*.txt", "/more/a b.txt"};
  trainer.micro_batch_size = 2;
  trainer.learning_rate = 3e-4;
  EXPECT_THAT(TrainerCommand(trainer),
              ElementsAre("lockstep-trainer", "train", "--model=nano", "--data=/data/*.txt",
                          "--data=/more/a b.txt", "--steps=1000", "--global-batch-size=16",
                          "--micro-batch-size=2", "--sequence-length=128", "--learning-rate=3e-04",
                          "--warmup-steps=0", "--decay-steps=0", "--weight-decay=0.1", "--clip=1",
                          "--seed=1337", "--precision=fp32", "--reduce=tree", "--bucket-mb=25",
                          "--overlap=on", "--checkpoint-every=100"));
}

TEST(TrainerCommand, NamesTheSizesOfAModelThatIsNoPreset) {
  Trainer trainer;
  trainer.model = {.preset = "", .layers = 2, .heads = 4, .width = 64, .vocabulary = 256};
  const std::vector<std::string> command = TrainerCommand(trainer);
  for (const char* word : {"--layers=2", "--heads=4", "--width=64", "--vocabulary=256"}) {
    EXPECT_THAT(command, Contains(word));
  }
  EXPECT_THAT(command, Not(Contains(testing::HasSubstr("--model"))));
}

TEST(TrainerCommand, NamesTheServersOfAParameterServerAndNoBuckets) {
  Trainer trainer;
  trainer.sync = Sync::kParameterServer;
  trainer.servers = {1, 3};
  const std::vector<std::string> command = TrainerCommand(trainer);
  EXPECT_THAT(command, Contains("--sync=parameter-server"));
  EXPECT_THAT(command, Contains("--server=1"));
  EXPECT_THAT(command, Contains("--server=3"));
  EXPECT_THAT(command, Not(Contains(testing::HasSubstr("--bucket-mb"))));
}

TEST(TrainerCommand, GoesOnFromPromptsInModeGenerate) {
  Trainer trainer;
  trainer.mode = TrainerMode::kGenerate;
  trainer.prompts = {"/data/prompts.txt"};
  EXPECT_THAT(TrainerCommand(trainer), ElementsAre("lockstep-trainer", "generate",
                                                   "--prompts=/data/prompts.txt", "--seed=1337"));
}

TEST(TrainerCommand, IsWhatAJobWithoutACommandRunsAndPlans) {
  TrainingJob job;
  job.spec.trainer.emplace().data = {"a"};
  EXPECT_EQ(BuildCommand(job, {}), TrainerCommand(*job.spec.trainer));
  EXPECT_EQ(MakePlan(job).command, TrainerCommand(*job.spec.trainer));
}

}  // namespace
}  // namespace lockstep::core
