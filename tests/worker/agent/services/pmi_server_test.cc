#include "worker/agent/services/pmi_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/net/tcp.h"
#include "tests/base/loop_test_base.h"
#include "tests/worker/agent/services/mpi_recorder.h"

namespace lockstep::agent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr core::Generation kFirst{1, 1};
constexpr core::Generation kSecond{1, 2};

// A machine alone with two ranks.
class PmiServerTest : public LoopTest, public MpiRecorder {
 protected:
  PmiServerTest() {
    pmi_ = std::make_unique<PmiServer>(loop(), "job", 0, 1, 2, this,
                                       [this](const std::string& line) { log_ += line + "\n"; });
    EXPECT_TRUE(pmi_->Begin(kFirst).ok());
  }

  // Blocks no longer than the loopback takes.
  static UniqueFd Dial(const std::string& address) {
    const Result<Endpoint> endpoint = ParseEndpoint(address);
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), endpoint->get(), endpoint->size), 0);
    fcntl(fd.get(), F_SETFL, O_NONBLOCK);
    return fd;
  }
  static void Say(const UniqueFd& fd, const std::string& line) {
    const std::string bytes = line + "\n";
    EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // What it is answered until this stands there, or the connection ends.
  std::string Hear(const UniqueFd& fd, const std::string& until) {
    std::string heard;
    EXPECT_TRUE(RunUntil([&] {
      std::array<char, 4096> buffer;
      const ssize_t got = recv(fd.get(), buffer.data(), buffer.size(), 0);
      if (got > 0) heard.append(buffer.data(), static_cast<size_t>(got));
      loop()->Post([] {});
      return got == 0 || heard.find(until) != std::string::npos;
    }));
    return heard;
  }
  UniqueFd Rank(uint32_t local_rank) {
    UniqueFd fd = Dial(pmi_->address());
    Say(fd, "cmd=initack pmiid=" + std::to_string(pmi_->id(local_rank)));
    EXPECT_THAT(Hear(fd, "debug=0\n"), HasSubstr("cmd=set rank=" + std::to_string(local_rank)));
    Say(fd, "cmd=init pmi_version=1 pmi_subversion=1");
    Hear(fd, "rc=0\n");
    return fd;
  }
  static core::Failure Exit(int code) {
    core::Failure death;
    death.cause = core::Cause::kProcessExit;
    death.exit_code = code;
    death.by_itself = true;
    return death;
  }

  std::string log_;
  std::unique_ptr<PmiServer> pmi_;
};

TEST_F(PmiServerTest, RanksMeetInABarrierAndReadWhatTheOthersPut) {
  const UniqueFd zero = Rank(0);
  const UniqueFd one = Rank(1);
  const std::string table = "kvs_job_1-1";
  Say(zero, "cmd=put kvsname=" + table + " key=a value=1");
  Hear(zero, "rc=0");
  Say(zero, "cmd=barrier_in");
  Say(one, "cmd=barrier_in");
  ASSERT_TRUE(RunUntil([&] { return !fences_.empty(); }));
  EXPECT_EQ(fences_[0].first, kFirst);
  EXPECT_THAT(fences_[0].second, ElementsAre(core::TableEntry{"a", "1"}));
  pmi_->Deliver({kSecond, {}, true});  // not theirs
  pmi_->Deliver({kFirst, {{"b", "2"}}, true});
  Hear(zero, "cmd=barrier_out\n");
  Hear(one, "cmd=barrier_out\n");
  Say(one, "cmd=get kvsname=" + table + " key=b");
  EXPECT_THAT(Hear(one, "\n"), HasSubstr("value=2"));
}

TEST_F(PmiServerTest, AGenerationHasIdsOfItsOwnAndKnowsNoneOfTheLast) {
  const UniqueFd old = Rank(0);
  const uint32_t id = pmi_->id(0);
  ASSERT_TRUE(pmi_->Begin(kSecond).ok());
  EXPECT_EQ(Hear(old, "never"), "") << "closed";
  const UniqueFd late = Dial(pmi_->address());
  Say(late, "cmd=initack pmiid=" + std::to_string(id));
  EXPECT_EQ(Hear(late, "never"), "");
  EXPECT_THAT(log_, HasSubstr("its PMI_ID is not a rank of this generation"));
  Rank(0);
}

TEST_F(PmiServerTest, WhoProvesNothingKeepsNoRankOut) {
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 50; ++i) strangers.push_back(Dial(pmi_->address()));
  Rank(0);
  Rank(1);
}

TEST_F(PmiServerTest, ARankThatHasSpokenKeepsItsPlaceHoweverManyStrangersFollow) {
  const UniqueFd rank = Dial(pmi_->address());
  Say(rank, "cmd=initack pmiid=" + std::to_string(pmi_->id(0)));
  std::vector<UniqueFd> strangers;
  for (int wave = 0; wave < 4; ++wave) {
    for (int i = 0; i < 60; ++i) strangers.push_back(Dial(pmi_->address()));
    int rounds = 0;
    ASSERT_TRUE(RunUntil([&] {
      loop()->Post([] {});
      return ++rounds >= 10;
    }));
  }
  EXPECT_THAT(Hear(rank, "debug=0\n"), HasSubstr("cmd=set rank=0"));
}

// Its connections are refused before they take a place.
TEST_F(PmiServerTest, AnotherUserOfTheNodeIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  constexpr int kNoOtherUser = 2;
  const Result<Endpoint> endpoint = ParseEndpoint(pmi_->address());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (setuid(65534) != 0) _exit(kNoOtherUser);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    char byte = 0;
    const bool reached = connect(fd, endpoint->get(), endpoint->size) == 0;
    _exit(reached && read(fd, &byte, 1) <= 0 ? 0 : 1);  // when the other end is closed
  }
  int status = 0;
  ASSERT_TRUE(RunUntil([&] {
    loop()->Post([] {});
    return waitpid(child, &status, WNOHANG) == child;
  }));
  if (WEXITSTATUS(status) == kNoOtherUser) GTEST_SKIP() << "there is no other user here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_THAT(log_, HasSubstr("another user opened it"));
  Rank(0);
}

TEST_F(PmiServerTest, TheCodeAndTheWordsOfAnAbortAreTheFailures) {
  const UniqueFd zero = Rank(0);
  Say(zero, "cmd=abort exitcode=7 message=no data");
  core::Failure death = Exit(0);  // MPI_Abort(comm, 0) exits so, too
  EXPECT_TRUE(pmi_->Judge(0, &death)) << "read before its end, though the loop did not come to it";
  EXPECT_EQ(death.exit_code, 7);
  EXPECT_EQ(death.stderr_tail, "it called MPI_Abort with code 7: no data");
  EXPECT_THAT(log_, HasSubstr("rank 0 called MPI_Abort with code 7: no data"));
}

TEST_F(PmiServerTest, AnEndBeforeMpiBeganIsTheConfigurationsFaultWhereThereArePeers) {
  core::Failure death = Exit(0);
  EXPECT_TRUE(pmi_->Judge(1, &death)) << "it was a world of its own";
  EXPECT_EQ(death.cause, core::Cause::kConfiguration);
  death = Exit(3);
  EXPECT_TRUE(pmi_->Judge(1, &death));
  EXPECT_EQ(death.cause, core::Cause::kProcessExit) << "its code says more";
  death = Exit(0);
  death.by_itself = false;
  EXPECT_FALSE(pmi_->Judge(1, &death)) << "it was told to";

  PmiServer alone(loop(), "job", 0, 1, 1, {}, [](const std::string&) {});
  ASSERT_TRUE(alone.Begin(kFirst).ok());
  death = Exit(0);
  EXPECT_FALSE(alone.Judge(0, &death)) << "a world of one is the whole job";
}

TEST_F(PmiServerTest, OneThatStaysAfterItsAbortIsKilled) {
  const UniqueFd one = Rank(1);
  Say(one, "cmd=abort exitcode=3");
  ASSERT_TRUE(RunUntil([&] { return !killed_.empty(); }));
  EXPECT_THAT(killed_, ElementsAre(1U));
  core::Failure death;
  death.cause = core::Cause::kProcessSignal;
  death.signal = 9;
  death.by_itself = true;
  EXPECT_TRUE(pmi_->Judge(1, &death));
  EXPECT_EQ(death.cause, core::Cause::kProcessExit);
  EXPECT_EQ(death.exit_code, 3);
  EXPECT_EQ(death.signal, 0);
}

TEST_F(PmiServerTest, AnEndWithinMpiIsAFailureThoughItsCodeIsNone) {
  const UniqueFd zero = Rank(0);
  const UniqueFd one = Rank(1);
  Say(one, "cmd=finalize");
  core::Failure death = Exit(0);
  EXPECT_TRUE(pmi_->Judge(0, &death));
  EXPECT_THAT(death.stderr_tail, HasSubstr("between MPI_Init and MPI_Finalize"));
  death = Exit(0);
  EXPECT_FALSE(pmi_->Judge(1, &death));
  death = Exit(0);
  death.by_itself = false;
  EXPECT_FALSE(pmi_->Judge(0, &death)) << "it was told to";
}

}  // namespace
}  // namespace lockstep::agent
