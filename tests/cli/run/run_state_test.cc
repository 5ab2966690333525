#include "cli/run/run_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class RunStateTest : public ::testing::Test {
 protected:
  RunStateTest() {
    std::string pattern = ::testing::TempDir() + "run_state.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~RunStateTest() override { fs::remove_all(folder_); }

  void WriteGeneration(const std::string& name, const std::string& job_uid) {
    fs::create_directories(folder_ + "/generations");
    std::ofstream(folder_ + "/generations/" + name)
        << R"({"generation":")" << name << R"(","jobUID":")" << job_uid << R"(","resumes":""})";
  }

  std::string folder_;
};

TEST_F(RunStateTest, TheEpochGoesOnFromRunToRun) {
  std::string uid;
  {
    Result<RunState> state = RunState::Open("gpt", folder_, "Auto");
    ASSERT_TRUE(state.ok()) << state.error().message;
    uid = state->job_uid();
    EXPECT_EQ(*state->RaiseEpoch(), 1u);
    EXPECT_EQ(*state->RaiseEpoch(), 2u);
  }
  Result<RunState> state = RunState::Open("gpt", folder_, "Auto");
  ASSERT_TRUE(state.ok()) << state.error().message;
  EXPECT_EQ(state->job_uid(), uid);
  EXPECT_EQ(*state->RaiseEpoch(), 3u);
}

TEST_F(RunStateTest, TheEpochIsKeptThoughTheFolderHasNoRoomForASecondFile) {
  {
    Result<RunState> state = RunState::Open("gpt", folder_, "Auto");
    ASSERT_TRUE(state.ok() && state->RaiseEpoch().ok());
    // Where the draft would be.
    fs::create_directories(folder_ + "/.lockstep/run.json.new." + std::to_string(getpid()) + "/x");
    const Result<uint32_t> raised = state->RaiseEpoch();
    ASSERT_TRUE(raised.ok()) << raised.error().message;
    EXPECT_EQ(*raised, 2u);
  }
  Result<RunState> state = RunState::Open("gpt", folder_, "Auto");
  ASSERT_TRUE(state.ok()) << state.error().message;
  EXPECT_EQ(state->epoch(), 2u);
}

TEST_F(RunStateTest, ASecondRunOnTheFolderIsRefused) {
  Result<RunState> first = RunState::Open("gpt", folder_, "Auto");
  ASSERT_TRUE(first.ok());
  Result<RunState> second = RunState::Open("gpt", folder_, "Auto");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr("another run"));
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string(getpid())));
}

TEST_F(RunStateTest, ThroughALinkItIsTheSameFolderAndTheSameJob) {
  std::string link = folder_ + "-link";
  fs::create_directory_symlink(folder_, link);
  std::string uid = RunState::Open("gpt", folder_, "Auto")->job_uid();
  EXPECT_EQ(RunState::Open("gpt", link, "Auto")->job_uid(), uid);
  fs::remove(link);
}

TEST_F(RunStateTest, AnotherJobsCheckpointsAreRefusedUnderAuto) {
  WriteGeneration("3-1", "another-job");
  Result<RunState> state = RunState::Open("gpt", folder_, "Auto");
  ASSERT_FALSE(state.ok());
  EXPECT_EQ(state.error().kind, ErrorKind::kConflict);
  EXPECT_THAT(state.error().message, HasSubstr("resume: PATH"));
}

TEST_F(RunStateTest, AnotherJobsCheckpointsMayBeNamedOrPassedOver) {
  WriteGeneration("3-1", "another-job");
  EXPECT_TRUE(RunState::Open("gpt", folder_, "Never").ok());
  Result<RunState> state = RunState::Open("gpt", folder_, folder_ + "/checkpoints/3-1/000001.a");
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(*state->RaiseEpoch(), 4u);
}

TEST_F(RunStateTest, OnlyTheLastGenerationSaysWhoseCheckpointsTheyAre) {
  std::string uid = RunState::Open("gpt", folder_, "Auto")->job_uid();
  WriteGeneration("9-2", "another-job");
  WriteGeneration("10-1", uid);
  EXPECT_TRUE(RunState::Open("gpt", folder_, "Auto").ok());
}

TEST_F(RunStateTest, NumbersGoOnWhereTheRecordWasLost) {
  std::string uid = RunState::Open("gpt", folder_, "Auto")->job_uid();
  WriteGeneration("7-3", uid);
  WriteGeneration("notes.txt", uid);
  Result<RunState> state = RunState::Open("gpt", folder_, "Auto");
  ASSERT_TRUE(state.ok());
  EXPECT_EQ(*state->RaiseEpoch(), 8u);
}

TEST_F(RunStateTest, ADamagedRecordIsAnErrorThatNamesTheFile) {
  fs::create_directories(folder_ + "/.lockstep");
  std::ofstream(folder_ + "/.lockstep/run.json") << "{\"epoch\": -4}";
  Result<RunState> state = RunState::Open("gpt", folder_, "Auto");
  ASSERT_FALSE(state.ok());
  EXPECT_THAT(state.error().message, HasSubstr("run.json is damaged"));
}

TEST_F(RunStateTest, AFolderThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ + "/file") << "text";
  EXPECT_FALSE(RunState::Open("gpt", folder_ + "/file", "Auto").ok());
}

TEST(RunStateWithoutFolderTest, EachRunIsAJobOfItsOwn) {
  Result<RunState> one = RunState::Open("gpt", "", "Auto");
  Result<RunState> two = RunState::Open("gpt", "", "Auto");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(one->job_uid(), two->job_uid());
  EXPECT_EQ(*one->RaiseEpoch(), 1u);
}

TEST(RunRecordTest, WhatIsWrittenReadsBackEqual) {
  RunRecord record{"uid", "gpt", 7};
  Result<RunRecord> read = ParseRunRecord(ToJson(record));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, record);
}

}  // namespace
}  // namespace lockstep::cli
