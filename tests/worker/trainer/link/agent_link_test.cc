#include "worker/trainer/link/agent_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <thread>

namespace lockstep::trainer {
namespace {

using testing::HasSubstr;

// An agent of one connection at a time.
class FakeAgent {
 public:
  FakeAgent() {
    std::string pattern = testing::TempDir() + "agent_XXXXXX";
    folder_ = mkdtemp(pattern.data());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path().data(), path().size());
    fd_ = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd_ < 0) std::abort();
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
  }
  ~FakeAgent() {
    close(fd_);
    std::filesystem::remove_all(folder_);
  }
  FakeAgent(const FakeAgent&) = delete;
  FakeAgent& operator=(const FakeAgent&) = delete;

  std::string path() const { return folder_ + "/agent.sock"; }
  int Accept() const { return accept(fd_, nullptr, nullptr); }

  static std::string ReadLine(int connection) {
    std::string line;
    for (char c = 0; read(connection, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

  // The answer to the next question.
  std::thread Answer(const std::string& answer) const {
    return std::thread([this, answer] {
      const int connection = Accept();
      EXPECT_THAT(ReadLine(connection), HasSubstr("\"commit\":\"step-1\""));
      EXPECT_EQ(send(connection, answer.data(), answer.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(answer.size()));
      close(connection);
    });
  }

 private:
  std::string folder_;
  int fd_ = -1;
};

TEST(AgentLink, ReportsNumbersAsALineOfJsonAndLeavesOutWhatIsNone) {
  const FakeAgent agent;
  AgentLink link(agent.path(), 3);
  link.Report({{"step", 12}, {"loss", 2.5}, {"norm", std::numeric_limits<double>::quiet_NaN()}});
  link.Report({{"step", 13}});
  link.Report({{"step", 14}, {"loss", std::numeric_limits<double>::quiet_NaN()}});
  link.Report({{"step", 15}, {"loss", -std::numeric_limits<double>::infinity()}});
  const int connection = agent.Accept();
  EXPECT_EQ(FakeAgent::ReadLine(connection), R"({"loss":2.5,"rank":3,"step":12})");
  EXPECT_EQ(FakeAgent::ReadLine(connection), R"({"rank":3,"step":13})");
  EXPECT_EQ(FakeAgent::ReadLine(connection), R"({"loss":"NaN","rank":3,"step":14})");
  EXPECT_EQ(FakeAgent::ReadLine(connection), R"({"loss":"-Infinity","rank":3,"step":15})");
  close(connection);
}

TEST(AgentLink, NeverWaitsForAnAgentThatDoesNotReadAndNeverSendsHalfALine) {
  const FakeAgent agent;
  AgentLink link(agent.path(), 0);
  for (int i = 0; i < 20'000; ++i) link.Report({{"step", i}, {"loss", 1.0 / (i + 3)}});
  const int connection = agent.Accept();
  std::atomic<int> lines = 0;
  std::thread reader([&] {
    for (std::string line = FakeAgent::ReadLine(connection); !line.empty();
         line = FakeAgent::ReadLine(connection)) {
      EXPECT_EQ(line.front(), '{');
      EXPECT_EQ(line.back(), '}') << line;
      ++lines;
      if (line.find("\"end\"") != std::string::npos) break;
    }
  });
  // The first of these finishes the line that was cut.
  while (lines == 0) std::this_thread::yield();
  for (int i = 0; i < 1000; ++i) link.Report({{"end", 1}});
  reader.join();
  EXPECT_LT(lines, 20'000);
  close(connection);
}

TEST(AgentLink, TellsInALineOfItsOwnWhereTheRankStood) {
  const FakeAgent agent;
  TellPlace(agent.path(), 3, "1-2", "allreduce 17 \"bucket 3\"");
  const int connection = agent.Accept();
  EXPECT_EQ(FakeAgent::ReadLine(connection),
            R"({"generation":"1-2","place":"allreduce 17 \"bucket 3\"","rank":3})");
  close(connection);
}

TEST(AgentLink, DoesNothingWithoutAnAgent) {
  TellPlace("", 0, "1-2", "barrier 1");
  TellPlace("/nonexistent/agent.sock", 0, "1-2", "barrier 1");
  AgentLink none("", 0);
  EXPECT_FALSE(none.exists());
  none.Report({{"step", 1}});
  AgentLink gone("/nonexistent/agent.sock", 0);
  gone.Report({{"step", 1}});
  EXPECT_EQ(gone.Commit("step-1", seconds(1)).error().kind, ErrorKind::kUnavailable);
}

TEST(AgentLink, CommitsToThePathThatTheAgentNames) {
  const FakeAgent agent;
  AgentLink link(agent.path(), 0);
  std::thread answering = agent.Answer("{\"id\":1,\"ok\":true,\"final\":\"/c/000001.step-1\"}\n");
  const Result<std::string> final = link.Commit("step-1", seconds(30));
  answering.join();
  ASSERT_TRUE(final.ok()) << final.error().message;
  EXPECT_EQ(*final, "/c/000001.step-1");
}

TEST(AgentLink, TellsARefusedCommitFromOneWithoutAnAnswer) {
  const FakeAgent agent;
  AgentLink link(agent.path(), 0);
  std::thread refusing = agent.Answer("{\"id\":1,\"ok\":false,\"reason\":\"it is over\"}\n");
  const Result<std::string> refused = link.Commit("step-1", seconds(30));
  refusing.join();
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_THAT(refused.error().message, HasSubstr("it is over"));

  std::thread closing = agent.Answer("{\"id\":1");
  EXPECT_EQ(link.Commit("step-1", seconds(30)).error().kind, ErrorKind::kUnavailable);
  closing.join();

  std::thread babbling = agent.Answer("[]\n");
  EXPECT_EQ(link.Commit("step-1", seconds(30)).error().kind, ErrorKind::kInvalid);
  babbling.join();

  EXPECT_EQ(link.Commit("step-1", milliseconds(20)).error().kind, ErrorKind::kTimeout);
}

}  // namespace
}  // namespace lockstep::trainer
