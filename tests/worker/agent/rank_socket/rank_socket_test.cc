#include "worker/agent/rank_socket/rank_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/base/loop_test_base.h"
#include "tests/base/shell.h"

namespace lockstep::agent {
namespace {

class RankSocketTest : public LoopTest, protected RankSocket::Owner {
 protected:
  RankSocketTest() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    path_ = (folder_ / "socket").string();
    auto socket = RankSocket::Listen(loop(), path_, this,
                                     [this](const std::string& line) { log_.push_back(line); });
    EXPECT_TRUE(socket.ok());
    socket_ = std::move(*socket);
  }
  ~RankSocketTest() override { std::filesystem::remove_all(folder_); }

  void OnProgress(RankSocket::ClientId client, const ProgressMessage& message) override {
    if (const auto* report = std::get_if<ProgressReport>(&message)) {
      steps_.push_back(report->step);
    } else {
      socket_->Answer(client, LatestAnswer(1, "/ckpt/7"));
    }
  }
  void OnClosed(RankSocket::ClientId /*client*/) override { ++closed_; }

  int Dial() {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
  }
  static void Put(int fd, std::string_view bytes) {
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  std::filesystem::path folder_;
  std::string path_;
  std::vector<int64_t> steps_;
  std::vector<std::string> log_;
  int closed_ = 0;
  std::unique_ptr<RankSocket> socket_;
};

TEST_F(RankSocketTest, TakesLinesHoweverTheyAreCut) {
  const UniqueFd rank(Dial());
  Put(rank.get(), "{\"step\": 1}\n\n{\"step\": 2}\n{\"st");
  ASSERT_TRUE(RunUntil([&] { return steps_.size() == 2; }));
  Put(rank.get(), "ep\": 3}\n");
  ASSERT_TRUE(RunUntil([&] { return steps_.size() == 3; }));
  EXPECT_EQ(steps_, (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(RankSocketTest, AnswersTheOneThatAsked) {
  const UniqueFd other(Dial());
  const int fd = Dial();
  Output asker(loop(), UniqueFd(fd));
  Put(fd, "{\"id\": 1, \"latest\": true}\n");
  ASSERT_TRUE(RunUntil([&] { return !asker.text().empty(); }));
  EXPECT_EQ(asker.text(), LatestAnswer(1, "/ckpt/7"));
}

TEST_F(RankSocketTest, ABrokenLineEndsItsConnectionWithAReasonAndNoOther) {
  const int fd = Dial();
  const UniqueFd good(Dial());
  Output bad(loop(), UniqueFd(fd));
  Put(fd, "{\"step\": -1}\n");
  ASSERT_TRUE(RunUntil([&] { return bad.ended(); }));
  ASSERT_EQ(log_.size(), 1U);
  EXPECT_NE(log_[0].find("step must be a whole number"), std::string::npos) << log_[0];
  Put(good.get(), "{\"step\": 5}\n");
  EXPECT_TRUE(RunUntil([&] { return steps_.size() == 1; }));
}

TEST_F(RankSocketTest, ALineWithoutAnEndIsNotKept) {
  const int fd = Dial();
  Output endless(loop(), UniqueFd(fd));
  const std::string piece(32'000, 'x');
  for (int i = 0; i < 3; ++i) {
    send(fd, piece.data(), piece.size(), MSG_NOSIGNAL);
    Settle();
  }
  EXPECT_TRUE(RunUntil([&] { return endless.ended(); }));
}

TEST_F(RankSocketTest, AProcessThatReadsNoAnswersIsDropped) {
  const UniqueFd deaf(Dial());
  std::string questions;
  for (int i = 0; i < 500; ++i) questions += "{\"id\": 1, \"latest\": true}\n";
  ASSERT_TRUE(RunUntil([&] { return socket_->clients() == 1; }));
  while (socket_->clients() == 1) {
    send(deaf.get(), questions.data(), questions.size(), MSG_NOSIGNAL);
    Settle();
  }
  EXPECT_NE(log_.back().find("does not read its answers"), std::string::npos) << log_.back();
}

TEST_F(RankSocketTest, ConnectionsBeyondTheLimitAreRefused) {
  std::vector<UniqueFd> ranks;
  for (size_t i = 0; i < RankSocket::kMaxClients + 5; ++i) {
    ranks.emplace_back(Dial());
    Settle();
  }
  ASSERT_TRUE(RunUntil([&] { return log_.size() == 5; }));
  EXPECT_EQ(socket_->clients(), RankSocket::kMaxClients);
}

TEST_F(RankSocketTest, ItsFileIsForThisUserAloneAndGoesWithIt) {
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  socket_.reset();
  EXPECT_NE(stat(path_.c_str(), &info), 0);
}

TEST_F(RankSocketTest, AnEndedConnectionIsTold) {
  const int fd = Dial();
  ASSERT_TRUE(RunUntil([&] { return socket_->clients() == 1; }));
  close(fd);
  EXPECT_TRUE(RunUntil([&] { return closed_ == 1; }));
}

TEST_F(RankSocketTest, APathThatIsTooLongIsSaid) {
  const auto socket =
      RankSocket::Listen(loop(), "/tmp/" + std::string(120, 'x'), this, [](const std::string&) {});
  ASSERT_FALSE(socket.ok());
  EXPECT_NE(socket.error().message.find("107 bytes"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::agent
