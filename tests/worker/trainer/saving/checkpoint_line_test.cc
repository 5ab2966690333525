#include "worker/trainer/saving/checkpoint_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "worker/trainer/checkpoint/manifest.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointLineTest : public testing::Test {
 protected:
  CheckpointLineTest() : agent_("", 0) {
    std::string pattern = testing::TempDir() + "checkpoint_line_XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~CheckpointLineTest() override { fs::remove_all(root_); }

  // A folder as a complete checkpoint has it.
  std::string Make(const std::string& name) {
    const fs::path folder = root_ / name;
    fs::create_directories(folder);
    std::ofstream(folder / kManifestFile) << FormatManifest({});
    return folder;
  }

  void MakeGeneration(const std::string& name, const std::string& resumes) {
    fs::create_directories(root_ / "generations");
    std::ofstream(root_ / "generations" / name) << R"({"resumes": ")" << resumes << "\"}";
  }

  // What is resumed from, below root_.
  std::vector<std::string> Candidates(CheckpointLine::Options options) {
    const Result<CheckpointLine::Candidates> found =
        CheckpointLine(std::move(options), agent_).ToResumeFrom();
    EXPECT_TRUE(found.ok());
    std::vector<std::string> names;
    if (found.ok()) {
      for (const std::string& folder : found->folders) {
        names.push_back(fs::path(folder).lexically_relative(root_));
      }
    }
    return names;
  }

  AgentLink agent_;
  fs::path root_;
};

TEST_F(CheckpointLineTest, ResumesFromTheNewestOfAFolderAndThenOlderOnes) {
  Make("step-00000010");
  Make("step-00000200");
  Make(".writing-step-00000300");
  EXPECT_THAT(Candidates({.folder = root_, .resume = "auto"}),
              ElementsAre("step-00000200", "step-00000010"));
  EXPECT_THAT(Candidates({.folder = root_, .resume = "never"}), IsEmpty());
  EXPECT_THAT(Candidates({.folder = root_ / "none", .resume = "auto"}), IsEmpty());
}

TEST_F(CheckpointLineTest, ANamedFolderIsTheOnlyOne) {
  const std::string folder = Make("pretrained");
  AgentLink agent("", 0);
  const auto found = CheckpointLine({.folder = root_, .resume = folder}, agent).ToResumeFrom();
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->named);
  EXPECT_THAT(found->folders, ElementsAre(folder));
  EXPECT_FALSE(
      CheckpointLine({.folder = root_, .resume = root_ / "gone"}, agent).ToResumeFrom().ok());
}

TEST_F(CheckpointLineTest, FollowsTheGenerationsLineBackwardsAndNoOther) {
  const std::string begun = Make("checkpoints/1-1/000001.step-00000010");
  const std::string older = Make("checkpoints/1-1/000002.step-00000020");
  Make("checkpoints/1-1/000003.step-00000030");  // renamed late: nobody resumed from it
  Make("checkpoints/1-2/000001.step-00000025");  // of a generation that is not in the line
  Make("checkpoints/2-3/step-00000040");         // being written
  const std::string newest = Make("checkpoints/2-3/000001.step-00000030");
  MakeGeneration("2-3", older);
  MakeGeneration("1-2", begun);
  MakeGeneration("1-1", "");
  EXPECT_THAT(
      Candidates({.folder = root_ / "checkpoints/2-4", .resume = newest, .committed = true}),
      ElementsAre("checkpoints/2-3/000001.step-00000030", "checkpoints/1-1/000002.step-00000020",
                  "checkpoints/1-1/000001.step-00000010"));
}

TEST_F(CheckpointLineTest, WhatWasInMemoryComesBeforeWhatItsLineHasOnDisk) {
  const std::string part = Make("run/memory/1-1/0/000003.step-00000030");
  const std::string on_disk = Make("checkpoints/1-1/000002.step-00000020");
  Make("checkpoints/1-1/000004.step-00000040");  // renamed late: not in the line
  MakeGeneration("1-2", on_disk);
  MakeGeneration("1-1", "");
  EXPECT_THAT(
      Candidates({.folder = root_ / "checkpoints/1-2", .resume = part, .committed = true}),
      ElementsAre("run/memory/1-1/0/000003.step-00000030", "checkpoints/1-1/000002.step-00000020"));
  EXPECT_THAT(Candidates({.folder = "", .resume = part}),
              ElementsAre("run/memory/1-1/0/000003.step-00000030"));
}

TEST_F(CheckpointLineTest, APartInMemoryIsWrittenWhereNothingOfARefusedOneIsLeft) {
  Make("local/checkpoints/step-00000010");
  const CheckpointLine line({.folder = root_ / "checkpoints/1-1",
                             .resume = "",
                             .committed = true,
                             .memory = root_ / "local/checkpoints"},
                            agent_);
  EXPECT_EQ(line.MemoryFolderFor(20), root_ / "local/checkpoints/step-00000020");
  EXPECT_TRUE(fs::is_empty(root_ / "local/checkpoints"));
  EXPECT_TRUE(line.IsInMemory(line.MemoryFolderFor(20)));
  EXPECT_FALSE(line.IsInMemory(line.FolderFor(20)));
}

TEST_F(CheckpointLineTest, WithoutAnAgentACommitMovesTheFolderAndRemovesOlderOnes) {
  CheckpointLine line({.folder = root_, .resume = "auto", .keep = 2}, agent_);
  for (const int64_t step : {10, 20, 30}) {
    const std::string folder = line.FolderFor(step);
    Make(fs::path(folder).lexically_relative(root_));
    const Result<std::string> final = line.Commit(folder);
    ASSERT_TRUE(final.ok()) << final.error().message;
    EXPECT_FALSE(fs::exists(folder));
  }
  EXPECT_THAT(Candidates({.folder = root_, .resume = "auto"}),
              ElementsAre("step-00000030", "step-00000020"));
  std::ifstream hint(root_ / "LATEST");
  std::string latest;
  std::getline(hint, latest);
  EXPECT_EQ(latest, "step-00000030");
}

TEST_F(CheckpointLineTest, CheckpointsThatWereSetAsideTakeNoPlaceOfTheLine) {
  const std::string good = Make("checkpoints/1-1/000001.step-00000300");
  const std::string aside = Make("checkpoints/1-1/000002.step-00000400");
  Make("checkpoints/1-1/000003.step-00000500");
  MakeGeneration("1-1", "");
  MakeGeneration("1-2", good);
  const std::string first = Make("checkpoints/1-2/000001.step-00000400");
  const CheckpointLine line(
      {.folder = root_ / "checkpoints/1-2", .resume = good, .committed = true, .keep = 2}, agent_);
  line.RemoveOlder(first);
  EXPECT_TRUE(fs::exists(good)) << "the only one before step 400";
  EXPECT_TRUE(fs::exists(aside)) << "as many are kept for people";
  line.RemoveOlder(Make("checkpoints/1-2/000002.step-00000500"));
  EXPECT_FALSE(fs::exists(good));
  EXPECT_TRUE(fs::exists(first));
}

TEST_F(CheckpointLineTest, ACommitThatTheAgentDoesNotAnswerLeavesTheFolderWhereItIs) {
  AgentLink nobody(root_ / "no.sock", 0);
  fs::create_directories(root_ / "checkpoints/1-1");
  CheckpointLine line({.folder = root_ / "checkpoints/1-1", .resume = "", .committed = true},
                      nobody);
  const std::string folder = line.FolderFor(7);
  Make(fs::path(folder).lexically_relative(root_));
  const Result<std::string> final = line.Commit(folder);
  ASSERT_FALSE(final.ok());
  EXPECT_EQ(final.error().kind, ErrorKind::kUnavailable);
  EXPECT_TRUE(fs::exists(folder));
  EXPECT_EQ(line.Root(), root_);
}

}  // namespace
}  // namespace lockstep::trainer
