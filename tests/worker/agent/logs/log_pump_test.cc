// Real processes that write too much, too long and to nobody.
#include "worker/agent/logs/log_pump.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/base/loop_test_base.h"
#include "tests/base/shell.h"
#include "tests/worker/agent/metrics/page.h"

namespace lockstep::agent {
namespace {

class LogPumpTest : public LoopTest {
 protected:
  LogPumpTest() : spawner_(std::move(*Spawner::Create())) {
    signal(SIGPIPE, SIG_IGN);
    std::array<int, 2> fds{};
    EXPECT_EQ(pipe2(fds.data(), O_CLOEXEC), 0);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    shown_ = std::make_unique<Output>(loop(), UniqueFd(fds[0]));
    stdout_.reset(fds[1]);
    console_ = std::make_unique<Console>(loop(), stdout_.get());
  }
  ~LogPumpTest() override {
    for (const pid_t pid : pids_) {
      kill(-pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
  }

  void MakePump(core::Console console, core::LogFormat format, LogFiles* files = nullptr) {
    pump_ = std::make_unique<LogPump>(
        loop(), LogPumpOptions{.machine = 1, .console = console, .format = format}, console_.get(),
        files);
    pump_->StartGeneration("1-1");
  }
  void Run(int rank, const std::string& script) {
    SpawnResult result = spawner_->Spawn(Shell(script));
    auto& process = std::get<SpawnedProcess>(result);
    pids_.push_back(process.pid);
    last_ = std::move(process.pidfd);
    pump_->Add(rank, std::move(process.stdout_fd), std::move(process.stderr_fd));
  }
  // Its pipes are read meanwhile.
  void WaitForTheLast() {
    bool dead = false;
    ASSERT_TRUE(loop()->Watch(last_.get(), EPOLLIN, [&](uint32_t) { dead = true; }).ok());
    EXPECT_TRUE(RunUntil([&] { return dead; }));
    loop()->Unwatch(last_.get());
  }
  void RunToItsEnd(int rank, const std::string& script) {
    Run(rank, script);
    WaitForTheLast();
    tail_ = pump_->Finish(rank);
    EXPECT_TRUE(RunUntil([&] { return console_->empty(); }));
    Settle();
  }
  const std::string& shown() const { return shown_->text(); }

  std::unique_ptr<Spawner> spawner_;
  std::unique_ptr<Output> shown_;
  UniqueFd stdout_;
  std::unique_ptr<Console> console_;
  std::unique_ptr<LogPump> pump_;
  std::vector<pid_t> pids_;
  UniqueFd last_;  // the pidfd of the newest
  std::string tail_;
};

TEST_F(LogPumpTest, PrefixesEachLineWithItsMachineAndRank) {
  MakePump(core::Console::kAll, core::LogFormat::kPrefix);
  RunToItsEnd(3, "echo one; echo two; printf three");
  EXPECT_EQ(shown(), "[m1 r3] one\n[m1 r3] two\n[m1 r3] three\n");
}

TEST_F(LogPumpTest, MarksLinesOfStderrIfItIsAskedTo) {
  pump_ = std::make_unique<LogPump>(loop(), LogPumpOptions{.machine = 1, .marks_stderr = true},
                                    console_.get(), nullptr);
  pump_->StartGeneration("1-1");
  RunToItsEnd(3, "echo one; echo two >&2");
  EXPECT_NE(shown().find("[m1 r3] one\n"), std::string::npos) << shown();
  EXPECT_NE(shown().find("[m1 r3 err] two\n"), std::string::npos) << shown();
}

TEST_F(LogPumpTest, RawIsWhatTheProcessWrote) {
  MakePump(core::Console::kAll, core::LogFormat::kRaw);
  RunToItsEnd(3, "echo one");
  EXPECT_EQ(shown(), "one\n");
}

TEST_F(LogPumpTest, RawAddsNoLineEnd) {
  MakePump(core::Console::kAll, core::LogFormat::kRaw);
  RunToItsEnd(3, "head -c 600000 /dev/zero | tr '\\0' x; echo; printf '{\"half\": '");
  ASSERT_TRUE(RunUntil([&] { return shown().size() >= 600'010; }));
  EXPECT_EQ(shown(), std::string(600'000, 'x') + "\n{\"half\": ");
}

TEST_F(LogPumpTest, TellsWhenARankBeganToSayWhyItFails) {
  MakePump(core::Console::kRankZero, core::LogFormat::kPrefix);
  const Time before = BootTime();
  RunToItsEnd(3, "echo epoch >&2; echo 'Traceback (most recent call last):' >&2; echo x >&2");
  EXPECT_GE(pump_->WordsBegan(3), before);
  EXPECT_LE(pump_->WordsBegan(3), BootTime());
  RunToItsEnd(4, "echo epoch >&2");
  EXPECT_EQ(pump_->WordsBegan(4), kNever);
}

constexpr const char* kFails =
    "echo epoch >&2; echo 'Traceback (most recent call last):' >&2; echo ' step()' >&2; "
    "echo 'EOFError' >&2";

TEST_F(LogPumpTest, WhatARankSaysOfItsFailureIsShownOnceItIsKnownWhatItWas) {
  MakePump(core::Console::kAll, core::LogFormat::kPrefix);
  RunToItsEnd(3, kFails);
  EXPECT_EQ(shown(), "[m1 r3] epoch\n");
  pump_->ShowHeld(3, false);
  ASSERT_TRUE(RunUntil([&] { return shown().ends_with("EOFError\n"); }));
  EXPECT_EQ(shown(),
            "[m1 r3] epoch\n[m1 r3] Traceback (most recent call last):\n"
            "[m1 r3]  step()\n[m1 r3] EOFError\n");
}

TEST_F(LogPumpTest, TheEchoOfAPeersLossIsOneLine) {
  MakePump(core::Console::kAll, core::LogFormat::kPrefix);
  RunToItsEnd(3, kFails);
  pump_->ShowHeld(3, true);
  const std::string folded = "[m1 r3] lost a peer: EOFError (3 lines are folded here)\n";
  EXPECT_TRUE(RunUntil([&] { return shown() == "[m1 r3] epoch\n" + folded; }));
}

TEST_F(LogPumpTest, ARankThatLivesOnHasItsTracebackShown) {
  MakePump(core::Console::kAll, core::LogFormat::kPrefix);
  Run(3, std::string(kFails) + "; exec sleep 1000");
  EXPECT_TRUE(RunUntil([&] { return shown().ends_with("EOFError\n"); }));
}

TEST_F(LogPumpTest, JsonLinesAreValidWhateverTheProcessWrites) {
  MakePump(core::Console::kAll, core::LogFormat::kJson);
  RunToItsEnd(3, "printf 'quote \" \\377 end\\n' >&2");
  const auto object = nlohmann::json::parse(shown());
  EXPECT_EQ(object["rank"], 3);
  EXPECT_EQ(object["machine"], 1);
  EXPECT_EQ(object["stream"], "stderr");
  EXPECT_EQ(object["generation"], "1-1");
  EXPECT_EQ(object["message"], "quote \" \xEF\xBF\xBD end");
}

TEST_F(LogPumpTest, RankZeroHidesTheOthers) {
  MakePump(core::Console::kRankZero, core::LogFormat::kPrefix);
  RunToItsEnd(0, "echo zero");
  RunToItsEnd(1, "echo one");
  EXPECT_EQ(shown(), "[m1 r0] zero\n");
}

TEST_F(LogPumpTest, FailedOnlyShowsTheLastLinesOfTheRankThatFailed) {
  MakePump(core::Console::kFailedOnly, core::LogFormat::kPrefix);
  RunToItsEnd(0, "echo fine");
  RunToItsEnd(1, "echo out; echo 'first cause' >&2; echo 'second' >&2");
  EXPECT_EQ(shown(), "");
  pump_->ShowFailed(1);
  ASSERT_TRUE(RunUntil([&] { return !shown().empty(); }));
  EXPECT_EQ(shown(), "[m1 r1] first cause\n[m1 r1] second\n");
}

TEST_F(LogPumpTest, FinishReturnsTheLastLinesOfStderrThoughADaemonHoldsThePipe) {
  MakePump(core::Console::kAll, core::LogFormat::kPrefix);
  RunToItsEnd(0, "sleep 1000 & seq 1 10000 >&2; echo 'ValueError: bad' >&2");
  EXPECT_TRUE(tail_.ends_with("10000\nValueError: bad")) << tail_;
  EXPECT_LE(tail_.size(), LogPump::kFailureTail);
}

TEST_F(LogPumpTest, AFloodTakesNoTimersTurnAndALongLineNoMemory) {
  MakePump(core::Console::kAll, core::LogFormat::kPrefix);
  Run(0, "exec cat /dev/zero");
  Run(1, "exec yes >&2");
  int beats = 0;
  std::function<void()> beat = [&] {
    if (++beats < 20) loop()->StartTimer(BootTime() + milliseconds(1), beat);
  };
  beat();
  ASSERT_TRUE(RunUntil([&] { return beats == 20 && pump_->bytes_read() > (1U << 22); }));
}

TEST_F(LogPumpTest, AReaderThatStandsStillBlocksNoRank) {
  std::array<int, 2> fds{};
  ASSERT_EQ(pipe2(fds.data(), O_CLOEXEC), 0);
  const UniqueFd never_read(fds[0]);
  const UniqueFd writer(fds[1]);
  console_ = std::make_unique<Console>(loop(), writer.get());
  MakePump(core::Console::kAll, core::LogFormat::kPrefix);
  Run(0, "seq 1 1000000; echo done >&2");
  WaitForTheLast();
  EXPECT_EQ(pump_->Finish(0), "done");
  EXPECT_GT(console_->dropped_lines(), 0U);
}

TEST_F(LogPumpTest, FilesHoldEveryByte) {
  const std::unique_ptr<FileWorker> worker = std::move(*FileWorker::Create(loop()));
  std::string name = (std::filesystem::temp_directory_path() / "lockstep-pump-XXXXXX").string();
  const std::filesystem::path folder = mkdtemp(name.data());
  LogFiles files(worker.get(), {.path = folder.string()}, [](const std::string&) {});
  MakePump(core::Console::kRankZero, core::LogFormat::kPrefix, &files);
  RunToItsEnd(5, "seq 1 100000; printf 'no end' >&2");
  ASSERT_TRUE(RunUntil([&] { return files.idle(); }));
  std::ifstream in(folder / "1-1/rank-5.stdout.log");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(std::ranges::count(text.str(), '\n'), 100'000);
  EXPECT_EQ(std::filesystem::file_size(folder / "1-1/rank-5.stderr.log"), 6U);
  EXPECT_EQ(files.dropped_bytes(), 0U);
  std::filesystem::remove_all(folder);
}

TEST_F(LogPumpTest, ADiskThatTakesNothingIsCountedAndSaidOnce) {
  const std::unique_ptr<FileWorker> worker = std::move(*FileWorker::Create(loop()));
  std::vector<std::string> log;
  LogFiles files(worker.get(), {.path = "/proc/no/such/folder"},
                 [&](const std::string& line) { log.push_back(line); });
  MakePump(core::Console::kRankZero, core::LogFormat::kPrefix, &files);
  RunToItsEnd(5, "seq 1 1000");
  ASSERT_TRUE(RunUntil([&] { return files.idle(); }));
  files.Append("rank-5.stdout", "again\n");
  ASSERT_TRUE(RunUntil([&] { return files.idle(); }));
  EXPECT_EQ(files.dropped_bytes(), 3893U + 6U);
  ASSERT_EQ(log.size(), 1U);
  EXPECT_NE(log[0].find("the job continues"), std::string::npos);
}

TEST_F(LogPumpTest, CountsLinesAndBytesOfBothStreams) {
  MakePump(core::Console::kRankZero, core::LogFormat::kRaw);
  RunToItsEnd(3, "echo out; echo err >&2; printf half");
  const Page page = PageOf(*pump_);
  EXPECT_EQ(page.At("lockstep_log_lines_total"), 2);
  EXPECT_EQ(page.At("lockstep_log_bytes_total"), 12);
}

}  // namespace
}  // namespace lockstep::agent
