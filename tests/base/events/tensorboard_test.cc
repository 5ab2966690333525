#include "base/events/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

namespace lockstep::events {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (char byte : bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<uint8_t>(byte));
    hex += digits.data();
  }
  return hex;
}

class EventFileTest : public ::testing::Test {
 protected:
  EventFileTest() {
    std::string pattern = ::testing::TempDir() + "events-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~EventFileTest() override { fs::remove_all(root_); }

  std::unique_ptr<EventFile> Create(int64_t start_step = 1) const {
    Result<std::unique_ptr<EventFile>> file = EventFile::Create(root_ + "/run", start_step);
    EXPECT_TRUE(file.ok()) << file.error().message;
    return std::move(*file);
  }

  static std::string Contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string root_;
};

// Made by TensorBoard 2.20's own messages and record writer.
TEST(TensorBoardRecordTest, TheBytesAreThoseOfTensorBoardsOwnWriter) {
  EXPECT_EQ(Hex(VersionRecord(1700000000.5)),
            "1800000000000000a37f4b220900002040fc54d9411a0d627261696e2e4576656e743a322b353110");
  EXPECT_EQ(Hex(StartRecord(1700000000.5, 1201)),
            "100000000000000095fbfe180900002040fc54d94110b1093a020801aea65e41");
  std::vector<Scalar> scalars = {{"train/loss", 2.5}, {"lr", 0.0003}};
  EXPECT_EQ(Hex(ScalarsRecord(1700000001.25, 300, scalars)),
            "2c00000000000000f4aecc450900005040fc54d94110ac022a1e0a110a0a747261696e2f6c6f7373"
            "15000020400a090a026c721552499d39bbbb65ef");
}

TEST_F(EventFileTest, AFileBeginsWithItsVersionAndItsFirstStep) {
  std::unique_ptr<EventFile> file = Create(7);
  std::string contents = Contents(file->path());
  EXPECT_THAT(contents, HasSubstr("brain.Event:2"));
  EXPECT_EQ(contents.size(), VersionRecord(0).size() + StartRecord(0, 7).size());
  EXPECT_THAT(file->path(), HasSubstr("/run/events.out.tfevents."));
}

TEST_F(EventFileTest, StepsAreThereAfterAFlush) {
  std::unique_ptr<EventFile> file = Create();
  std::string before = Contents(file->path());
  std::vector<Scalar> scalars = {{"loss", 1.5}};
  ASSERT_TRUE(file->Scalars(1, 10, scalars).ok());
  EXPECT_EQ(Contents(file->path()), before);
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(Contents(file->path()), before + ScalarsRecord(10, 1, scalars));
}

TEST_F(EventFileTest, StepsAreThereInTheEndOrWhenTheyAreMany) {
  std::vector<Scalar> scalars = {{"loss", 1.5}};
  std::unique_ptr<EventFile> file = Create();
  std::string path = file->path();
  std::string expected = Contents(path);
  for (int64_t step = 1; step <= 3000; ++step) {
    ASSERT_TRUE(file->Scalars(step, 10, scalars).ok());
    expected += ScalarsRecord(10, step, scalars);
  }
  EXPECT_GT(Contents(path).size(), expected.size() / 2);
  file.reset();
  EXPECT_EQ(Contents(path), expected);
}

TEST_F(EventFileTest, NamesRiseEvenWithinASecondAndAfterAClockThatWasAhead) {
  std::vector<std::string> names = {Create()->path(), Create()->path()};
  std::ofstream(root_ + "/run/events.out.tfevents.4000000000.other.1.0") << "";
  names.push_back(root_ + "/run/events.out.tfevents.4000000000.other.1.0");
  names.push_back(Create()->path());
  names.push_back(Create()->path());
  EXPECT_TRUE(std::ranges::is_sorted(names, std::ranges::less_equal())) << names.back();
}

TEST_F(EventFileTest, WhatIsNoNumberIsToldAsSuch) {
  std::vector<Scalar> scalars = {{"loss", std::numeric_limits<double>::quiet_NaN()},
                                 {"norm", std::numeric_limits<double>::infinity()}};
  EXPECT_TRUE(Create()->Scalars(1, 10, scalars).ok());
}

TEST_F(EventFileTest, AFolderThatCantBeMadeIsAnError) {
  std::ofstream(root_ + "/file") << "";
  Result<std::unique_ptr<EventFile>> file = EventFile::Create(root_ + "/file/run", 1);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message, HasSubstr(root_ + "/file/run"));
}

// The limit stands for a full disk; it can fall within a record.
TEST_F(EventFileTest, AFullDiskLeavesWholeRecordsAndMayRecover) {
  std::vector<Scalar> scalars = {{"loss", 1.5}};
  std::unique_ptr<EventFile> file = Create();
  ASSERT_TRUE(file->Scalars(1, 10, scalars).ok());
  ASSERT_TRUE(file->Flush().ok());
  std::string whole = Contents(file->path());

  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit limit = {whole.size() + 10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  Status added = file->Scalars(2, 11, scalars);
  Status flushed = file->Flush();
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  EXPECT_TRUE(added.ok());
  ASSERT_FALSE(flushed.ok());
  EXPECT_EQ(flushed.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(flushed.error().message, HasSubstr("writing " + file->path()));
  EXPECT_EQ(Contents(file->path()), whole);
  ASSERT_TRUE(file->Scalars(3, 12, scalars).ok());
  ASSERT_TRUE(file->Flush().ok());
  EXPECT_EQ(Contents(file->path()), whole + ScalarsRecord(12, 3, scalars));
}

}  // namespace
}  // namespace lockstep::events
