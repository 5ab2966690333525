#include "worker/agent/evidence/ask.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "base/file.h"
#include "base/unique_fd.h"

namespace lockstep::agent {
namespace {

// An agent's run folder, and who answers there.
class AskTest : public ::testing::Test {
 protected:
  AskTest() {
    std::string pattern = ::testing::TempDir() + "ask-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(folder_ + "/agent.sock", address.sun_path);
    listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(listener_.get(), 1), 0);
  }
  ~AskTest() override { std::filesystem::remove_all(folder_); }

  // What is told where the answer names `path`.
  Result<std::string> AskOneThatNames(const std::string& path) {
    std::thread peer([&] {
      const UniqueFd fd(accept(listener_.get(), nullptr, nullptr));
      std::array<char, 256> question;
      EXPECT_GT(read(fd.get(), question.data(), question.size()), 0);
      EXPECT_TRUE(WriteAll(fd.get(), R"({"id":1,"evidence":")" + path + "\"}\n", "it").ok());
    });
    Result<std::string> told = AskForEvidence(folder_);
    peer.join();
    return told;
  }

  std::string folder_;
  UniqueFd listener_;
};

TEST_F(AskTest, ReadsTheFileOfTheAgentsFolderAndNoOtherThatItsAnswerNames) {
  std::ofstream(folder_ + "/secret") << "secret";
  std::ofstream(EvidenceFile(folder_)) << "evidence";
  const Result<std::string> told = AskOneThatNames(folder_ + "/secret");
  ASSERT_TRUE(told.ok());
  EXPECT_EQ(*told, "evidence");
}

TEST_F(AskTest, FollowsNoLinkAndWaitsForNoPipe) {
  std::ofstream(folder_ + "/secret") << "secret";
  std::filesystem::create_symlink(folder_ + "/secret", EvidenceFile(folder_));
  EXPECT_FALSE(AskOneThatNames(EvidenceFile(folder_)).ok());
  std::filesystem::remove(EvidenceFile(folder_));
  ASSERT_EQ(mkfifo(EvidenceFile(folder_).c_str(), 0600), 0);
  EXPECT_FALSE(AskOneThatNames(EvidenceFile(folder_)).ok());
}

}  // namespace
}  // namespace lockstep::agent
