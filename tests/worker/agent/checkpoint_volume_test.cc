#include "worker/agent/checkpoint_volume.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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

  CheckpointVolume Volume(const std::string& resume = "Auto", const std::string& uid = "job") {
    return {root_, uid, resume};
  }

  std::string Begin(Generation generation, bool first = false, const std::string& resume = "Auto") {
    return BeginAs("job", generation, first, resume);
  }
  std::string BeginAs(const std::string& uid, Generation generation, bool first,
                      const std::string& resume) {
    Result<CheckpointVolume::Begun> begun = Volume(resume, uid).BeginGeneration(generation, first);
    EXPECT_TRUE(begun.ok()) << begun.error().message;
    if (!begun.ok()) return "error";
    return begun->taken == 0 ? begun->resumes : "taken " + std::to_string(begun->taken);
  }

  // As a process does after the agent's yes.
  std::string Commit(Generation generation, uint32_t number, const std::string& name) {
    std::string path = Volume().FinalPath(generation, number, name);
    fs::create_directories(path);
    return path;
  }

  std::string root_;
};

TEST_F(CheckpointVolumeTest, TheFirstGenerationResumesFromNothing) {
  EXPECT_EQ(Begin({1, 1}, true), "");
  EXPECT_TRUE(fs::is_regular_file(root_ + "/generations/1-1"));
  EXPECT_TRUE(fs::is_directory(root_ + "/checkpoints/1-1"));
}

TEST_F(CheckpointVolumeTest, TheNextOneResumesFromTheNewestCommit) {
  Begin({1, 1}, true);
  Commit({1, 1}, 1, "step-10");
  std::string newest = Commit({1, 1}, 2, "step-20");
  EXPECT_EQ(newest, root_ + "/checkpoints/1-1/000002.step-20");
  EXPECT_EQ(Begin({1, 2}), newest);
}

TEST_F(CheckpointVolumeTest, AGenerationWithoutACommitHandsOnWhatItResumedFrom) {
  Begin({1, 1}, true);
  std::string commit = Commit({1, 1}, 1, "step-10");
  Begin({1, 2});
  EXPECT_EQ(Begin({2, 1}), commit);
}

TEST_F(CheckpointVolumeTest, ALateRenameOfAnOlderGenerationIsNeverRead) {
  Begin({1, 1}, true);
  std::string known = Commit({1, 1}, 1, "step-10");
  Begin({1, 2});
  Commit({1, 1}, 2, "step-20");
  EXPECT_EQ(Begin({1, 3}), known);
}

TEST_F(CheckpointVolumeTest, WhatIsNotCommittedIsNotComplete) {
  Begin({1, 1}, true);
  fs::create_directories(root_ + "/checkpoints/1-1/step-10");
  fs::create_directories(root_ + "/checkpoints/1-1/12345.short");
  EXPECT_EQ(Begin({1, 2}), "");
}

TEST_F(CheckpointVolumeTest, ANumberThatIsTakenIsAConflict) {
  Begin({1, 1}, true);
  EXPECT_EQ(Volume().BeginGeneration({1, 1}, false).error().kind, ErrorKind::kConflict);
}

TEST_F(CheckpointVolumeTest, AnotherJobsFolderIsRefusedWithWhatToDo) {
  Begin({1, 1}, true);
  auto refused = Volume("Auto", "other").BeginGeneration({2, 1}, true);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(refused.error().message.find("resume: PATH"), std::string::npos);
}

TEST_F(CheckpointVolumeTest, AnotherJobMayGoOnBesideItWithNumbersOfItsOwn) {
  Begin({1, 1}, true);
  Begin({1, 2});
  std::string theirs = Commit({1, 2}, 1, "step-10");
  EXPECT_EQ(BeginAs("other", {1, 1}, true, theirs), "taken 2");
  EXPECT_EQ(BeginAs("other", {1, 3}, true, theirs), theirs);
  std::string ours = Commit({1, 3}, 1, "step-20");
  EXPECT_EQ(BeginAs("other", {1, 4}, false, theirs), ours);
  EXPECT_EQ(BeginAs("third", {1, 5}, true, "Never"), "");
  // Neither disturbs the first one, nor what they mean by Auto from then on.
  EXPECT_EQ(Begin({2, 1}), theirs);
  EXPECT_EQ(BeginAs("other", {3, 1}, false, "Auto"), ours);
}

TEST_F(CheckpointVolumeTest, NeverAndAPathCountForTheJobsFirstGenerationOnly) {
  Begin({1, 1}, true);
  std::string commit = Commit({1, 1}, 1, "step-10");
  EXPECT_EQ(Begin({2, 1}, true, "Never"), "");
  EXPECT_EQ(Begin({3, 1}, true, commit), commit);
  EXPECT_EQ(Begin({3, 2}, false, "Never"), commit);
}

TEST_F(CheckpointVolumeTest, APathThatIsNoFolderIsAnError) {
  auto missing = Volume(root_ + "/missing").BeginGeneration({1, 1}, true);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
}

TEST_F(CheckpointVolumeTest, AFileThatACrashLeftEmptyIsNoGeneration) {
  Begin({1, 1}, true);
  std::string commit = Commit({1, 1}, 1, "step-10");
  std::ofstream(root_ + "/generations/1-2").close();
  std::ofstream(root_ + "/generations/notes.txt") << "people write things";
  EXPECT_EQ(Begin({1, 3}), commit);
}

TEST_F(CheckpointVolumeTest, AFolderThatCannotBeMadeIsUnavailable) {
  std::ofstream(root_ + "/generations") << "a file in its place";
  EXPECT_FALSE(Volume().BeginGeneration({1, 1}, true).ok());
}

}  // namespace
}  // namespace lockstep::agent
