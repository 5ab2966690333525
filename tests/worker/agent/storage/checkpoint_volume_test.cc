#include "worker/agent/storage/checkpoint_volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "worker/agent/files/part_folder.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using core::Generation;

class CheckpointVolumeTest : public ::testing::Test {
 protected:
  CheckpointVolumeTest() {
    std::string pattern = ::testing::TempDir() + "volume-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~CheckpointVolumeTest() override { fs::remove_all(root_); }

  CheckpointVolume Volume(const std::string& resume = "Auto", const std::string& uid = "job",
                          uint32_t first_attempt = 1) {
    return {root_, uid, resume, first_attempt};
  }

  static std::string Begin(const CheckpointVolume& volume, Generation generation) {
    Result<CheckpointVolume::Begun> begun = volume.BeginGeneration(generation);
    EXPECT_TRUE(begun.ok()) << begun.error().message;
    if (!begun.ok()) return "error";
    return begun->taken == 0 ? begun->resumes : "taken " + std::to_string(begun->taken);
  }
  std::string Begin(Generation generation) { return Begin(Volume(), generation); }

  // As a process does after the agent's yes.
  std::string Commit(Generation generation, uint32_t number, const std::string& name) {
    std::string path = Volume().FinalPath(generation, number, name);
    fs::create_directories(path);
    return path;
  }

  std::string root_;
};

TEST_F(CheckpointVolumeTest, TheFirstGenerationResumesFromNothing) {
  EXPECT_EQ(Begin({1, 1}), "");
  EXPECT_TRUE(fs::is_regular_file(root_ + "/generations/1-1"));
  EXPECT_TRUE(fs::is_directory(root_ + "/checkpoints/1-1"));
}

TEST_F(CheckpointVolumeTest, TheNextOneResumesFromTheNewestCommit) {
  Begin({1, 1});
  Commit({1, 1}, 1, "step-10");
  std::string newest = Commit({1, 1}, 2, "step-20");
  EXPECT_EQ(newest, root_ + "/checkpoints/1-1/000002.step-20");
  EXPECT_EQ(Begin({1, 2}), newest);
}

TEST_F(CheckpointVolumeTest, AGenerationWithoutACommitHandsOnWhatItResumedFrom) {
  Begin({1, 1});
  std::string commit = Commit({1, 1}, 1, "step-10");
  Begin({1, 2});
  EXPECT_EQ(Begin({2, 1}), commit);
}

TEST_F(CheckpointVolumeTest, SaysWhichCommitOfThisJobItResumesFrom) {
  const std::string other = Volume().FinalPath({9, 9}, 100, "step-7");
  fs::create_directories(other);
  EXPECT_FALSE(Volume(other).BeginGeneration({1, 1})->commit.exists()) << "another job's";
  EXPECT_FALSE(Volume(other).BeginGeneration({1, 2})->commit.exists());
  Commit({1, 2}, 3, "step-10");
  EXPECT_EQ(Volume(other).BeginGeneration({1, 3})->commit, (core::CheckpointId{{1, 2}, 3}));
  EXPECT_EQ(Volume(other).BeginGeneration({1, 4})->commit, (core::CheckpointId{{1, 2}, 3}));
}

TEST_F(CheckpointVolumeTest, ALateRenameOfAnOlderGenerationIsNeverRead) {
  Begin({1, 1});
  std::string known = Commit({1, 1}, 1, "step-10");
  Begin({1, 2});
  Commit({1, 1}, 2, "step-20");
  EXPECT_EQ(Begin({1, 3}), known);
}

TEST_F(CheckpointVolumeTest, AnEarlierCheckpointIsTheOneThatLaterGenerationsResumeFrom) {
  Begin({1, 1});
  const std::string good = Commit({1, 1}, 1, "step-10");
  Commit({1, 1}, 2, "step-20");
  const auto begun = Volume().BeginGeneration(
      {1, 2}, core::EarlierRequest{.before = 15, .skip_first = 8, .skip_last = 16});
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(begun->resumes, good);
  EXPECT_EQ(begun->commit, (core::CheckpointId{{1, 1}, 1}));
  EXPECT_EQ(begun->skips, "11-16") << "step 10 is in the checkpoint";
  EXPECT_EQ(begun->earlier, 1U);
  EXPECT_EQ(begun->set_aside.size(), 1U);
  const auto next = Volume().BeginGeneration({2, 1});
  ASSERT_TRUE(next.ok());
  EXPECT_EQ(next->resumes, good) << "the newer one is set aside";
  EXPECT_EQ(next->skips, "11-16");
  EXPECT_EQ(next->earlier, 1U);
}

TEST_F(CheckpointVolumeTest, NothingBeginsIfNoEarlierCheckpointIsLeft) {
  Begin({1, 1});
  Commit({1, 1}, 2, "step-20");
  const auto begun = Volume().BeginGeneration({1, 2}, core::EarlierRequest{.before = 15});
  ASSERT_TRUE(begun.ok());
  EXPECT_TRUE(begun->none_earlier);
  EXPECT_FALSE(fs::exists(root_ + "/generations/1-2"));
}

TEST_F(CheckpointVolumeTest, NothingBeginsAnewBesideCheckpointsWithoutAStepInTheirNames) {
  Begin({1, 1});
  Commit({1, 1}, 1, "epoch-1");
  Commit({1, 1}, 2, "epoch-2");
  const auto begun = Volume().BeginGeneration({1, 2}, core::EarlierRequest{.before = 5000});
  ASSERT_TRUE(begun.ok());
  EXPECT_TRUE(begun->none_earlier);
}

TEST_F(CheckpointVolumeTest, ANewStartForgetsSkippedStepsAndEarlierRestarts) {
  Begin({1, 1});
  Commit({1, 1}, 1, "step-10");
  const core::EarlierRequest request{.before = 15, .skip_first = 8, .skip_last = 16};
  ASSERT_EQ(Volume().BeginGeneration({1, 2}, request)->skips, "11-16");
  const auto begun = Volume("Never", "job", 2).BeginGeneration({2, 1});
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(begun->resumes, "");
  EXPECT_EQ(begun->skips, "");
  EXPECT_EQ(begun->earlier, 0U);
}

TEST_F(CheckpointVolumeTest, WhatIsNotCommittedIsNotComplete) {
  Begin({1, 1});
  fs::create_directories(root_ + "/checkpoints/1-1/step-10");
  fs::create_directories(root_ + "/checkpoints/1-1/12345.short");
  EXPECT_EQ(Begin({1, 2}), "");
}

TEST_F(CheckpointVolumeTest, TheMillionthCommitIsNewerThanTheOneBefore) {
  Begin({1, 1});
  Commit({1, 1}, 999'999, "s");
  const std::string newest = Commit({1, 1}, 1'000'000, "s");
  EXPECT_EQ(newest, root_ + "/checkpoints/1-1/1000000.s");
  EXPECT_EQ(Begin({1, 2}), newest);
}

TEST_F(CheckpointVolumeTest, AGenerationWhoseFileIsLostIsNotPassedOverWhenItCommitted) {
  Begin({1, 1});
  Begin({1, 2});
  std::ofstream(root_ + "/generations/1-2").close();  // never started: nothing is lost
  EXPECT_EQ(Begin({1, 3}), "");
  Commit({1, 3}, 1, "step-10");
  std::ofstream(root_ + "/generations/1-3").close();
  const auto refused = Volume().BeginGeneration({2, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(refused.error().message.find("committed 1 checkpoints"), std::string::npos)
      << refused.error().message;
  fs::rename(root_ + "/checkpoints/1-3", root_ + "/kept");
  EXPECT_EQ(Begin({2, 1}), "");
}

TEST_F(CheckpointVolumeTest, AnAttemptBelowThatOfAGenerationThatBeganBeginsNothing) {
  Begin({5, 1});
  Begin({9, 1});
  Commit({9, 1}, 1, "step-900");
  const auto begun = Volume().BeginGeneration({6, 1});
  ASSERT_TRUE(begun.ok()) << begun.error().message;
  EXPECT_EQ(begun->later, 9U);
  EXPECT_FALSE(fs::exists(root_ + "/generations/6-1"));
  EXPECT_EQ(Volume("Auto", "other").BeginGeneration({6, 1}).ok(), false) << "another job's";
  EXPECT_EQ(Begin(Volume("Never", "other"), {6, 1}), "") << "another job's count for themselves";
}

TEST_F(CheckpointVolumeTest, AFifoAmongTheGenerationsHoldsNothingUp) {
  Begin({1, 1});
  const std::string commit = Commit({1, 1}, 1, "step-10");
  ASSERT_EQ(mkfifo((root_ + "/generations/1-2").c_str(), 0600), 0);
  EXPECT_EQ(Begin({1, 3}), commit);
}

TEST_F(CheckpointVolumeTest, ANumberThatIsTakenBeginsNothing) {
  Begin({1, 1});
  Begin({1, 2});
  EXPECT_EQ(Volume().BeginGeneration({1, 1})->later, 1U);
  EXPECT_EQ(Volume().BeginGeneration({1, 2})->later, 1U);
}

TEST_F(CheckpointVolumeTest, AnotherJobsFolderIsRefusedWithWhatToDo) {
  Begin({1, 1});
  auto refused = Volume("Auto", "other").BeginGeneration({2, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(refused.error().message.find("resume: PATH"), std::string::npos);
}

TEST_F(CheckpointVolumeTest, AnotherJobMayGoOnBesideItWithNumbersOfItsOwn) {
  Begin({1, 1});
  Begin({1, 2});
  std::string theirs = Commit({1, 2}, 1, "step-10");
  EXPECT_EQ(Begin(Volume(theirs, "other"), {1, 1}), "taken 2");
  EXPECT_EQ(Begin(Volume(theirs, "other"), {1, 3}), theirs);
  std::string ours = Commit({1, 3}, 1, "step-20");
  EXPECT_EQ(Begin(Volume(theirs, "other"), {1, 4}), ours);
  EXPECT_EQ(Begin(Volume("Never", "third"), {1, 5}), "");
  // Neither disturbs the first one, nor what they mean by Auto from then on.
  EXPECT_EQ(Begin({2, 1}), theirs);
  EXPECT_EQ(Begin(Volume("Auto", "other"), {3, 1}), ours);
}

TEST_F(CheckpointVolumeTest, NeverAndAPathCountForTheFirstGenerationAlone) {
  Begin({1, 1});
  std::string commit = Commit({1, 1}, 1, "step-10");
  EXPECT_EQ(Begin(Volume("Never", "job", 2), {2, 1}), "");
  EXPECT_EQ(Begin(Volume(commit, "job", 3), {3, 1}), commit);
  // Nobody needs to remember that one has begun: its file does.
  EXPECT_EQ(Begin(Volume("Never", "job", 3), {3, 2}), commit);
  EXPECT_EQ(Begin(Volume("Never", "job", 3), {4, 1}), commit);
}

TEST_F(CheckpointVolumeTest, APathThatIsNoFolderIsAnError) {
  auto missing = Volume(root_ + "/missing").BeginGeneration({1, 1});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
}

TEST_F(CheckpointVolumeTest, AFileThatACrashLeftEmptyIsNoGeneration) {
  Begin({1, 1});
  std::string commit = Commit({1, 1}, 1, "step-10");
  std::ofstream(root_ + "/generations/1-2").close();
  std::ofstream(root_ + "/generations/notes.txt") << "people write things";
  EXPECT_EQ(Begin({1, 3}), commit);
}

TEST_F(CheckpointVolumeTest, WhatAWriteFromMemoryLeavesUnfinishedIsRemovedByTheNextOne) {
  Begin({1, 1});
  Begin({1, 2});
  Begin(Volume("Never", "another"), {2, 1});
  const std::string commit = Commit({1, 1}, 1, "step-10");
  const std::string writing = Volume().PersistDir({{1, 2}, 0}, {{1, 1}, 4});
  const std::string left = Volume().PersistDir({{1, 1}, 3}, {{1, 1}, 3});
  const std::string another = Volume().PersistDir({{2, 1}, 1}, {{2, 1}, 1});
  const std::string moved_away = root_ + "/.lockstep/memory/1-1/removed-1-1-3";
  const std::string programs = root_ + "/checkpoints/1-1/.memory-1-1-3";
  for (const std::string& folder : {left, another, moved_away, programs}) {
    fs::create_directories(folder + "/deep");
    std::ofstream(folder + "/deep/rank-0") << "weights";
  }
  ASSERT_TRUE(WritePart(programs, writing, 0).ok());
  Volume().RemoveUnfinished(writing);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(moved_away));
  EXPECT_TRUE(fs::exists(programs)) << "what programs write is theirs, whatever its name";
  EXPECT_TRUE(fs::exists(another)) << "it is another job's";
  EXPECT_TRUE(fs::exists(commit));
  ASSERT_TRUE(Volume().FinishPersisting(writing, {{1, 2}, 0}, "step-4", 1).ok());
  EXPECT_EQ(Begin({1, 3}), root_ + "/checkpoints/1-2/000000.step-4");
  EXPECT_TRUE(fs::exists(root_ + "/checkpoints/1-2/000000.step-4/deep/rank-0"));
  EXPECT_FALSE(fs::exists(writing));
}

TEST_F(CheckpointVolumeTest, WhatIsMovedFromMemoryHasAllPartsAndNothingElse) {
  Begin({1, 1});
  const std::string writing = Volume().PersistDir({{1, 1}, 4}, {{1, 1}, 4});
  const std::string final = root_ + "/checkpoints/1-1/000004.step-4";
  const std::string part = root_ + "/part";
  fs::create_directories(part + "/deep");
  ASSERT_TRUE(WritePart(part, writing, 1).ok());
  const Status torn = Volume().FinishPersisting(writing, {{1, 1}, 4}, "step-4", 2);
  ASSERT_FALSE(torn.ok());
  EXPECT_THAT(torn.error().message, testing::HasSubstr("machine 0's part is gone"));
  EXPECT_FALSE(fs::exists(final));
  ASSERT_TRUE(WritePart(part, writing, 0).ok());
  ASSERT_TRUE(Volume().FinishPersisting(writing, {{1, 1}, 4}, "step-4", 2).ok());
  EXPECT_EQ(*ListPart(final), *ListPart(part));
}

TEST_F(CheckpointVolumeTest, AFolderThatCannotBeMadeIsUnavailable) {
  std::ofstream(root_ + "/generations") << "a file in its place";
  EXPECT_FALSE(Volume().BeginGeneration({1, 1}).ok());
}

}  // namespace
}  // namespace lockstep::agent
