#include "worker/agent/last_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "base/file.h"

namespace lockstep::agent::last_message_test {
namespace {

struct Starter {
  Starter() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    ours.reset(ends[0]);
    theirs.reset(ends[1]);
  }
  std::string Hear() {
    std::array<char, 64> heard{};
    const ssize_t n = recv(ours.get(), heard.data(), heard.size(), MSG_DONTWAIT);
    return n < 0 ? "" : std::string(heard.data(), static_cast<size_t>(n));
  }
  UniqueFd ours;
  UniqueFd theirs;
};

TEST(LastMessage, IsToldToTheStarterThoughItsFileCannotBeWritten) {
  Starter starter;
  const LastMessage message(std::move(starter.theirs), "/nonexistent/termination");
  const Status written = message.Write("verdict");
  ASSERT_FALSE(written.ok());
  EXPECT_THAT(written.error().message, testing::HasSubstr("/nonexistent/termination"));
  EXPECT_EQ(starter.Hear(), "verdict");
}

TEST(LastMessage, IsWrittenThoughTheStarterIsGone) {
  const std::string path = testing::TempDir() + "last_message." + std::to_string(getpid());
  Starter starter;
  starter.ours.reset();
  const LastMessage message(std::move(starter.theirs), path);
  EXPECT_FALSE(message.Write("verdict").ok());
  EXPECT_EQ(*ReadFile(path, 100), "verdict");
  std::filesystem::remove(path);
}

TEST(LastMessage, HasItsRoomFromTheStartAndIsEmptyUntilItIsWritten) {
  const std::string path = testing::TempDir() + "last_message." + std::to_string(getpid());
  const LastMessage message(UniqueFd(), path);
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_size, 0);
  EXPECT_GT(info.st_blocks, 0) << "a file system without fallocate?";
  ASSERT_TRUE(message.Write("verdict").ok());
  EXPECT_EQ(*ReadFile(path, 100), "verdict");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace lockstep::agent::last_message_test
