#include "core/gang/protocol/resume.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep::core {
namespace {

TEST(ChooseResume, StartsFromNothingOnAnEmptyVolume) {
  EXPECT_EQ(ChooseResume({}, {}, {1, 1}), "");
}

TEST(ChooseResume, TakesTheNewestCheckpointOfTheGenerationBefore) {
  EXPECT_EQ(ChooseResume({{{1, 1}, ""}}, {{{1, 1}, 2, "1-1/2"}, {{1, 1}, 1, "1-1/1"}}, {1, 2}),
            "1-1/2");
}

TEST(ChooseResume, PassesOnWhatAGenerationWithoutCheckpointsHadResumedFrom) {
  EXPECT_EQ(ChooseResume({{{1, 1}, ""}, {{1, 2}, "1-1/2"}}, {{{1, 1}, 2, "1-1/2"}}, {1, 3}),
            "1-1/2");
}

TEST(ChooseResume, NeverReadsACheckpointThatAnOlderGenerationCompletedLate) {
  EXPECT_EQ(ChooseResume({{{1, 1}, ""}, {{2, 1}, "1-1/2"}},
                         {{{1, 1}, 2, "1-1/2"}, {{1, 1}, 3, "1-1/3"}}, {2, 2}),
            "1-1/2");
}

TEST(ChooseResume, OrdersGenerationsByAttemptBeforeNumber) {
  EXPECT_EQ(ChooseResume({{{1, 9}, ""}, {{2, 1}, "1-8/1"}}, {{{1, 9}, 1, "1-9/1"}}, {2, 2}),
            "1-8/1");
}

TEST(ChooseResume, LooksAtNoGenerationAboveItsOwn) {
  EXPECT_EQ(ChooseResume({{{1, 1}, "seed"}, {{2, 1}, ""}}, {{{2, 1}, 1, "2-1/1"}}, {1, 2}), "seed");
}

TEST(ChooseResume, IsNotMisledByItsOwnFile) {
  EXPECT_EQ(ChooseResume({{{1, 1}, ""}, {{1, 2}, "other"}}, {{{1, 1}, 1, "1-1/1"}}, {1, 2}),
            "1-1/1");
}

TEST(StepInName, IsTheNumberBehindStepOrCheckpoint) {
  EXPECT_EQ(StepInName("/ckpt/checkpoints/1-1/000003.step-1200"), 1200);
  EXPECT_EQ(StepInName("global_step1200"), 1200);
  EXPECT_EQ(StepInName("epoch=2-step=400.ckpt"), 400);
  EXPECT_EQ(StepInName("checkpoint-500"), 500);
  EXPECT_EQ(StepInName("iter_0000100"), 100);
  EXPECT_EQ(StepInName("step-00000040"), 40);
  EXPECT_EQ(StepInName("epoch-3"), std::nullopt);
  EXPECT_EQ(StepInName("/ckpt/step-4/000001.model"), std::nullopt) << "of the folder";
}

CheckpointEntry Commit(Generation generation, uint32_t number, int64_t step) {
  return {generation, number,
          "/c/" + generation.ToString() + "/00000" + std::to_string(number) + ".step-" +
              std::to_string(step)};
}

EarlierCheckpoint Earlier(const std::vector<GenerationFile>& files,
                          const std::vector<CheckpointEntry>& checkpoints, Generation self,
                          int64_t before) {
  return ChooseEarlier(files, checkpoints, self, before,
                       [](const std::string& path, Generation generation) {
                         return path.starts_with("/c/" + generation.ToString() + "/");
                       });
}

TEST(ChooseEarlier, TakesTheNewestOfTheLineThatWasCommittedBeforeTheStep) {
  const EarlierCheckpoint chosen = Earlier(
      {{{1, 1}, ""}}, {Commit({1, 1}, 1, 100), Commit({1, 1}, 2, 200), Commit({1, 1}, 3, 300)},
      {1, 2}, 300);
  EXPECT_EQ(chosen.path, "/c/1-1/000002.step-200");
  EXPECT_EQ(chosen.set_aside, std::vector<std::string>{"/c/1-1/000003.step-300"});
  EXPECT_FALSE(chosen.missing);
}

TEST(ChooseEarlier, GoesBackThroughTheGenerationsAndPassesLateCommitsBy) {
  const std::vector<GenerationFile> files = {{{1, 1}, ""}, {{1, 2}, "/c/1-1/000001.step-100"}};
  const std::vector<CheckpointEntry> commits = {Commit({1, 1}, 1, 100), Commit({1, 1}, 2, 140),
                                                Commit({1, 2}, 1, 150)};
  EXPECT_EQ(Earlier(files, commits, {1, 3}, 150).path, "/c/1-1/000001.step-100")
      << "1-1's second commit is not in the line";
}

TEST(ChooseEarlier, ReadsASetAsideCheckpointNeverAgain) {
  // 1-2 went back from 300 to 100 and committed nothing.
  const std::vector<GenerationFile> files = {{{1, 1}, ""}, {{1, 2}, "/c/1-1/000001.step-100"}};
  const std::vector<CheckpointEntry> commits = {Commit({1, 1}, 1, 100), Commit({1, 1}, 2, 300)};
  EXPECT_EQ(ChooseResume(files, commits, {1, 3}), "/c/1-1/000001.step-100");
  EXPECT_EQ(Earlier(files, commits, {1, 3}, 1000).path, "/c/1-1/000001.step-100");
}

TEST(ChooseEarlier, BeginsAnewIfNoCheckpointIsEarlierAndNoneWasRemoved) {
  const EarlierCheckpoint chosen = Earlier({{{1, 1}, ""}}, {Commit({1, 1}, 1, 100)}, {1, 2}, 50);
  EXPECT_EQ(chosen.path, "");
  EXPECT_FALSE(chosen.missing);
}

TEST(ChooseEarlier, FindsNoneIfEarlierOnesWereRemoved) {
  EXPECT_TRUE(Earlier({{{1, 1}, ""}}, {Commit({1, 1}, 4, 400)}, {1, 2}, 350).missing);
  const std::vector<GenerationFile> files = {{{1, 1}, ""}, {{1, 2}, "/c/1-1/000002.step-200"}};
  EXPECT_TRUE(Earlier(files, {Commit({1, 2}, 1, 300)}, {1, 3}, 250).missing);
}

TEST(ChooseEarlier, PassesACheckpointWithoutAStepInItsNameBy) {
  const std::vector<CheckpointEntry> commits = {Commit({1, 1}, 1, 100),
                                                {{1, 1}, 2, "/c/1-1/000002.best"}};
  EXPECT_EQ(Earlier({{{1, 1}, ""}}, commits, {1, 2}, 900).path, "/c/1-1/000001.step-100");
}

TEST(ChooseEarlier, DoesNotBeginAnewIfACheckpointHasNoStepInItsName) {
  std::vector<CheckpointEntry> commits;
  for (uint32_t i = 1; i <= 3; ++i) {
    commits.push_back(
        {{1, 1}, i, "/c/1-1/00000" + std::to_string(i) + ".epoch-" + std::to_string(i)});
  }
  EXPECT_TRUE(Earlier({{{1, 1}, ""}}, commits, {1, 2}, 41000).missing);
  const std::vector<GenerationFile> files = {{{1, 1}, ""}, {{1, 2}, commits.back().path}};
  EXPECT_TRUE(Earlier(files, {}, {1, 3}, 9).missing) << "they were removed";
  EXPECT_TRUE(Earlier({{{1, 1}, "/other/step-1"}}, commits, {1, 2}, 900).missing)
      << "nor from what the job began from";
}

TEST(ChooseEarlier, DoesNotFollowTheLineOfAnotherJob) {
  const std::vector<GenerationFile> files = {{{1, 1}, ""}, {{2, 1}, "/other/1-1/000005.step-500"}};
  const std::vector<CheckpointEntry> commits = {Commit({1, 1}, 1, 250), Commit({2, 1}, 1, 600)};
  EXPECT_EQ(Earlier(files, commits, {2, 2}, 510).path, "/other/1-1/000005.step-500");
}

TEST(ChooseEarlier, EndsWithWhatTheJobBeganFrom) {
  const std::vector<GenerationFile> files = {{{1, 1}, "/other/step-1000"}};
  EXPECT_EQ(Earlier(files, {}, {1, 2}, 1500).path, "/other/step-1000");
  EXPECT_TRUE(Earlier(files, {}, {1, 2}, 900).missing);
  EXPECT_EQ(Earlier({{{1, 1}, "/other/best"}}, {}, {1, 2}, 9).path, "/other/best");
}

}  // namespace
}  // namespace lockstep::core
