#include "worker/agent/logs/log_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

class LogStoreTest : public ::testing::Test {
 protected:
  LogStoreTest() {
    std::string name = (fs::temp_directory_path() / "lockstep-logs-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~LogStoreTest() override { fs::remove_all(folder_); }

  std::string Read(const std::string& file) const {
    std::ifstream in(folder_ / file);
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }
  LogStore MakeStore(uint64_t max_file, uint64_t max_total) const {
    return LogStore({.path = folder_.string(), .max_file = max_file, .max_total = max_total});
  }

  fs::path folder_;
};

TEST_F(LogStoreTest, KeepsAFileARankStreamAndGeneration) {
  LogStore store = MakeStore(1000, 10'000);
  store.StartGeneration("1-1");
  ASSERT_TRUE(store.Append("rank-0.stdout", "a\n").ok());
  ASSERT_TRUE(store.Append("rank-0.stderr", "b\n").ok());
  ASSERT_TRUE(store.Append("rank-0.stdout", "c\n").ok());
  store.StartGeneration("1-2");
  ASSERT_TRUE(store.Append("rank-0.stdout", "d\n").ok());
  EXPECT_EQ(Read("1-1/rank-0.stdout.log"), "a\nc\n");
  EXPECT_EQ(Read("1-1/rank-0.stderr.log"), "b\n");
  EXPECT_EQ(Read("1-2/rank-0.stdout.log"), "d\n");
}

TEST_F(LogStoreTest, TurnsAFullFileOverAndKeepsOneOldOne) {
  LogStore store = MakeStore(10, 10'000);
  store.StartGeneration("1-1");
  for (const char* text : {"12345678\n", "second.\n", "third..\n"}) {
    ASSERT_TRUE(store.Append("rank-0.stdout", text).ok());
  }
  EXPECT_EQ(Read("1-1/rank-0.stdout.log"), "third..\n");
  EXPECT_EQ(Read("1-1/rank-0.stdout.log.1"), "second.\n");
}

TEST_F(LogStoreTest, TheOldestFilesGoWhenTheTotalIsUsedUp) {
  LogStore store = MakeStore(1000, 25);
  for (const char* generation : {"1-1", "1-2", "1-3"}) {
    store.StartGeneration(generation);
    ASSERT_TRUE(store.Append("rank-0.stdout", "123456789\n").ok());
  }
  EXPECT_FALSE(fs::exists(folder_ / "1-1/rank-0.stdout.log"));
  EXPECT_EQ(Read("1-2/rank-0.stdout.log"), "123456789\n");
  EXPECT_EQ(Read("1-3/rank-0.stdout.log"), "123456789\n");
}

TEST_F(LogStoreTest, RefusesWhatOnlyFilesInUseLeaveNoRoomFor) {
  LogStore store = MakeStore(1000, 12);
  store.StartGeneration("1-1");
  ASSERT_TRUE(store.Append("rank-0.stdout", "123456789\n").ok());
  const Status refused = store.Append("rank-1.stdout", "123456789\n");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kTooLarge);
}

TEST_F(LogStoreTest, AFolderThatCannotBeMadeIsAnErrorAndNoMore) {
  LogStore store({.path = "/proc/no/such/folder"});
  store.StartGeneration("1-1");
  EXPECT_FALSE(store.Append("rank-0.stdout", "x").ok());
  EXPECT_FALSE(store.Append("rank-0.stdout", "x").ok());
}

}  // namespace
}  // namespace lockstep::agent
