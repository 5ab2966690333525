// In place of lockstep-pmix is a script of /usr/bin/python3 that speaks its side of the protocol
// (worker/pmix/message.h); tests/system has the real one.
#include "worker/agent/services/pmix_server.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "core/exit_codes.h"
#include "tests/worker/agent/processes/process_test_base.h"
#include "tests/worker/agent/services/mpi_recorder.h"

namespace lockstep::agent::pmix_server_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr core::Generation kFirst{1, 1};
constexpr core::Generation kSecond{1, 2};

// `then` runs once it has said that the ranks may start.
std::string Script(const std::string& told, const std::string& then) {
  return "#!/usr/bin/python3 -ISs\n"
         "import os, socket, struct, sys, time\n"
         "agent = socket.socket(fileno=3)\n"
         "def say(kind, rank=0, code=0, text=b''):\n"
         "  agent.send(struct.pack('>BIiB', kind, rank, code, 1) + text)\n"
         "def hear():\n"
         "  packet = agent.recv(65536)\n"
         "  if not packet: sys.exit(0)\n"
         "  with open('" +
         told +
         "', 'ab') as file: file.write(packet[10:] + b'\\n')\n"
         "say(1)\n"
         "hear()\n"
         "for rank in range(int(sys.argv[3])): say(3, rank, text=b'PMIX_RANK=%d\\0' % rank)\n"
         "say(4)\n" +
         then + "\nwhile True: hear()\n";
}

// A machine of two with two ranks.
class PmixServerTest : public ProcessTest, public MpiRecorder {
 protected:
  PmixServerTest() {
    std::string pattern = testing::TempDir() + "/pmix-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~PmixServerTest() override {
    server_.reset();
    std::filesystem::remove_all(root_);
  }

  void Make(const std::string& script, Duration patience = minutes(1)) {
    const std::string program = root_ + "/lockstep-pmix";
    ASSERT_TRUE(script.empty() || WriteFileAtomically(program, script, {.mode = 0755}).ok());
    server_.emplace(loop(), spawner_.get(), &processes_,
                    PmixServer::Options{.program = program,
                                        .folder = root_ + "/helpers",
                                        .job_uid = "uid",
                                        .machine = 0,
                                        .machines = 2,
                                        .processes = 2,
                                        .patience = patience},
                    this, [this](const std::string& line) { log_ += line + "\n"; });
  }
  void BeginAndThen(const std::string& then) {
    Make(Script(told(), then));
    ASSERT_TRUE(server_->Begin(kFirst).ok());
    ASSERT_TRUE(RunUntil([&] { return !ready_.empty(); }));
  }
  std::string told() const { return root_ + "/told"; }
  // Until a helper has been told this.
  bool HearsIt(const std::string& text) {
    return RunUntil([&] {
      const Result<std::string> heard = ReadFile(told(), 1 << 20);
      loop()->Post([] {});
      return heard.ok() && heard->find(text) != std::string::npos;
    });
  }
  static core::Failure Exit(int code) {
    core::Failure death;
    death.cause = core::Cause::kProcessExit;
    death.exit_code = code;
    death.by_itself = true;
    return death;
  }

  std::string root_;
  std::string log_;
  std::optional<PmixServer> server_;
};

TEST_F(PmixServerTest, RanksMayStartOnceTheHelperHasToldTheirVariables) {
  Make(Script(told(), ""));
  ASSERT_TRUE(server_->Begin(kFirst).ok());
  EXPECT_THAT(ready_, IsEmpty());
  ASSERT_TRUE(RunUntil([&] { return !ready_.empty(); }));
  EXPECT_THAT(ready_, ElementsAre(kFirst));
  EXPECT_THAT(server_->variables(), ElementsAre(ElementsAre(Pair("PMIX_RANK", "0")),
                                                ElementsAre(Pair("PMIX_RANK", "1"))));
  EXPECT_TRUE(HearsIt("lockstep-uid-1-1-secret of 1-1\n"));
}

TEST_F(PmixServerTest, TheNextHelperIsToldOfARestartInPlaceAhead) {
  BeginAndThen("");
  ASSERT_TRUE(HearsIt("lockstep-uid-1-2-"));
  ASSERT_TRUE(server_->Begin(kSecond).ok());
  ASSERT_TRUE(RunUntil([&] { return ready_.size() == 2; }));
  EXPECT_EQ(ready_[1], kSecond);
  const Result<std::string> heard = ReadFile(told(), 1 << 20);
  EXPECT_EQ(std::count(heard->begin(), heard->end(), '\n'), 2) << *heard;
}

TEST_F(PmixServerTest, AHelperOfAnotherGenerationThanBeginsIsReplaced) {
  BeginAndThen("");
  ASSERT_TRUE(HearsIt("lockstep-uid-1-2-"));
  ASSERT_TRUE(server_->Begin({2, 1}).ok());
  ASSERT_TRUE(RunUntil([&] { return ready_.size() == 2; }));
  EXPECT_TRUE(HearsIt("lockstep-uid-2-1-"));
}

TEST_F(PmixServerTest, AHelperThatEndsFailsTheGenerationWithItsLastWords) {
  BeginAndThen("sys.stderr.write('no shared memory\\n'); sys.exit(3)");
  ASSERT_TRUE(RunUntil([&] { return !lost_.empty(); }));
  EXPECT_EQ(lost_[0].first, kFirst);
  const core::Failure& death = lost_[0].second;
  EXPECT_EQ(death.rank, -1);
  EXPECT_EQ(death.exit_code, 3);
  EXPECT_TRUE(death.by_itself);
  EXPECT_EQ(death.stderr_tail, "no shared memory\n");
  EXPECT_THAT(log_, HasSubstr("PMIx server: no shared memory"));
}

TEST_F(PmixServerTest, AHelperThatSaysWhyItEndsIsQuoted) {
  BeginAndThen("say(9, text=b'no room in /dev/shm'); sys.exit(1)");
  ASSERT_TRUE(RunUntil([&] { return !lost_.empty(); }));
  EXPECT_THAT(lost_[0].second.stderr_tail, HasSubstr("no room in /dev/shm"));
}

TEST_F(PmixServerTest, AHelperThatDoesNotAnswerIsKilled) {
  Make("#!/bin/sh\nexec sleep 1000\n", milliseconds(1));
  ASSERT_TRUE(server_->Begin(kFirst).ok());
  ASSERT_TRUE(RunUntil([&] { return !lost_.empty(); }));
  EXPECT_THAT(lost_[0].second.stderr_tail, HasSubstr("it did not answer"));
  EXPECT_EQ(lost_[0].second.exit_code, core::kExitTrouble);
  server_->Close();
  EXPECT_TRUE(RunUntil([] { return Living().empty(); }));
}

TEST_F(PmixServerTest, AMissingHelperIsNotFound) {
  Make("");
  const Status begun = server_->Begin(kFirst);
  ASSERT_FALSE(begun.ok());
  EXPECT_EQ(begun.error().kind, ErrorKind::kNotFound);
}

TEST_F(PmixServerTest, AFenceGoesToTheGangAndItsAnswerToTheHelper) {
  BeginAndThen("say(8, text=b'endpoint of rank 0')");
  ASSERT_TRUE(RunUntil([&] { return !fences_.empty(); }));
  EXPECT_EQ(fences_[0].first, kFirst);
  EXPECT_THAT(fences_[0].second, ElementsAre(core::TableEntry{"", "endpoint of rank 0"}));
  server_->Deliver({.generation = kSecond, .entries = {{"", "of another"}}, .last = true});
  server_->Deliver({.generation = kFirst, .entries = {{"", "of all ranks"}}, .last = true});
  EXPECT_TRUE(HearsIt("of all ranks\n"));
  const Result<std::string> heard = ReadFile(told(), 1 << 20);
  EXPECT_EQ(heard->find("of another"), std::string::npos);
}

TEST_F(PmixServerTest, TheEndOfARankIsJudgedByWhatTheHelperSaid) {
  // Rank 0 ends MPI, rank 1 calls MPI_Abort.
  BeginAndThen("say(5, 0); say(5, 1); say(6, 0); say(7, 1, 9, b'bad input'); say(8)");
  ASSERT_TRUE(RunUntil([&] { return !fences_.empty(); }));
  core::Failure first = Exit(0);
  EXPECT_FALSE(server_->Judge(0, &first));
  core::Failure second = Exit(0);
  EXPECT_TRUE(server_->Judge(1, &second));
  EXPECT_EQ(second.exit_code, 9);
  EXPECT_THAT(second.stderr_tail, HasSubstr("bad input"));
}

TEST_F(PmixServerTest, ARankThatNeverBeganMpiWasAWorldOfItsOwn) {
  BeginAndThen("");
  core::Failure death = Exit(0);
  EXPECT_TRUE(server_->Judge(0, &death));
  EXPECT_EQ(death.cause, core::Cause::kConfiguration);
}

TEST_F(PmixServerTest, AStopEndsTheHelperWithTheRanks) {
  BeginAndThen("");
  server_->Close();
  server_->Stop();
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_TRUE(Living().empty());
  EXPECT_THAT(lost_, IsEmpty());
  server_->End();
}

}  // namespace
}  // namespace lockstep::agent::pmix_server_test
