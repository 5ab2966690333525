// Real processes: they double-fork, ignore SIGTERM, daemonise; nothing of them may be left.
#include "worker/agent/processes/process_set.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <map>
#include <thread>
#include <utility>

#include "tests/worker/agent/processes/process_test_base.h"
#include "worker/agent/processes/descendants.h"

namespace lockstep::agent {
namespace {

using ProcessSetTest = ProcessTest;

TEST_F(ProcessSetTest, TellsAnExitCodeAndASignalApart) {
  Start(0, "exit 3");
  const pid_t second = Start(1, "echo ready; exec sleep 1000");
  kill(second, SIGUSR1);
  ASSERT_TRUE(RunUntil([&] { return deaths_.size() == 2; }));
  std::map<int, core::Failure> by_rank;
  for (const auto& death : deaths_) by_rank[death.rank] = death;
  EXPECT_EQ(by_rank[0].exit_code, 3);
  EXPECT_EQ(by_rank[0].signal, 0);
  EXPECT_EQ(by_rank[1].exit_code, -1);
  EXPECT_EQ(by_rank[1].signal, SIGUSR1);
  EXPECT_TRUE(by_rank[0].by_itself && by_rank[1].by_itself);
  EXPECT_TRUE(table_->groups().empty());
}

TEST_F(ProcessSetTest, AStopLeavesAParkedProcessAndItsChildrenOut) {
  Start(0, "(setsid sleep 1000 &); echo ready; exec sleep 1000");
  SpawnResult result = spawner_->Spawn(Shell("sleep 1000 & echo ready; wait"));
  auto& parked = std::get<SpawnedProcess>(result);
  processes_.LeaveOut(parked.pid);
  const Output output(loop(), std::move(parked.stdout_fd));
  ASSERT_TRUE(RunUntil([&] { return output.text() == "ready\n"; }));
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_EQ(DescendantsOf(parked.pid, {}).size(), 1U);
  EXPECT_EQ(Living(), std::vector<pid_t>{parked.pid});
  EXPECT_TRUE(RunUntil([&] { return outputs_[0]->ended(); }));  // the orphan is dead

  processes_.TakeIn(parked.pid);
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 2; }));
  ExpectAllGone();
}

TEST_F(ProcessSetTest, AStopSparesALeaderAndItsChildrenUntilAnotherDoesNot) {
  const pid_t kept = Start(0, "sleep 1000 & echo ready; wait");
  Start(1, "(setsid sleep 1000 &); echo ready; exec sleep 1000");
  ASSERT_TRUE(RunUntil(
      [&] { return outputs_[0]->text() == "ready\n" && outputs_[1]->text() == "ready\n"; }));
  processes_.Stop(BootTime() + milliseconds(100), {kept});
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_EQ(processes_.spared(), 1U);
  EXPECT_EQ(Living(), std::vector<pid_t>{kept});
  EXPECT_EQ(DescendantsOf(kept, {}).size(), 1U);
  EXPECT_EQ(table_->groups(), std::vector<pid_t>{kept}) << "the guard must be able to kill it";

  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 2; }));
  ExpectAllGone();
}

TEST_F(ProcessSetTest, AStopLetsOneThatIsEndingByItselfEndBeforeItSignalsIt) {
  const pid_t ending = Start(0, "echo ready; exec sleep 1000");
  Start(1, "echo ready; exec sleep 1000");
  processes_.Stop(BootTime(), {}, {.pids = {ending}, .until = BootTime() + minutes(1)});
  ASSERT_TRUE(RunUntil([&] { return deaths_.size() == 1; }));
  EXPECT_EQ(deaths_[0].rank, 1);
  EXPECT_FALSE(deaths_[0].by_itself);
  kill(ending, SIGUSR1);  // it ends, for whatever reason
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_EQ(deaths_[1].rank, 0);
  EXPECT_TRUE(deaths_[1].by_itself);
}

TEST_F(ProcessSetTest, OneThatDoesNotEndIsKilledWithTheOthersAfterAWhile) {
  const pid_t ending = Start(0, "echo ready; exec sleep 1000");
  Start(1, "echo ready; exec sleep 1000");
  processes_.Stop(BootTime(), {}, {.pids = {ending}, .until = BootTime() + milliseconds(50)});
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_FALSE(deaths_[0].by_itself || deaths_[1].by_itself);
}

TEST_F(ProcessSetTest, ASecondStopAtOnceKillsWhatIsEndingToo) {
  const pid_t ending = Start(0, "echo ready; exec sleep 1000");
  Start(1, "trap '' TERM; echo ready; sleep 1000");
  processes_.Stop(BootTime() + minutes(1), {},
                  {.pids = {ending}, .until = BootTime() + minutes(1)});
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
}

TEST_F(ProcessSetTest, OneThatIsSparedNoMoreIsKilledInTheMidstOfAStop) {
  const pid_t kept = Start(0, "echo ready; exec sleep 1000");
  const pid_t late = Start(1, "trap '' TERM; echo ready; sleep 1000");
  ASSERT_TRUE(RunUntil(
      [&] { return outputs_[0]->text() == "ready\n" && outputs_[1]->text() == "ready\n"; }));
  processes_.Stop(BootTime(), {kept, late});
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  processes_.Stop(BootTime(), {kept});
  ASSERT_TRUE(RunUntil([&] { return gone_ == 2; }));
  EXPECT_EQ(Living(), std::vector<pid_t>{kept});
  processes_.TakeInSpared();
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 3; }));
}

TEST_F(ProcessSetTest, ADeadParkedProcessThatIsTakenInIsReapedWithoutAStop) {
  SpawnResult result = spawner_->Spawn(Shell("exit 0"));
  const auto& parked = std::get<SpawnedProcess>(result);
  processes_.LeaveOut(parked.pid);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(parked.pid), &info, WEXITED | WNOWAIT), 0);
  Settle();
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(parked.pid), &info, WEXITED | WNOWAIT | WNOHANG), 0);
  processes_.TakeIn(parked.pid);
  EXPECT_TRUE(RunUntil([&] { return kill(parked.pid, 0) != 0; }));
}

// A process that has been killed, has closed all it had, and is not dead for as long as this lives:
// the first one of a PID namespace, which waits there for the others to be reaped.
class DyingProcess {
 public:
  DyingProcess() {
    pid_ =
        static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0));
    if (pid_ == 0) Pause();
    if (pid_ < 0) return;
    pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    std::array<int, 2> ready{};
    EXPECT_EQ(pipe(ready.data()), 0);
    const UniqueFd read_end(ready[0]);
    UniqueFd write_end(ready[1]);
    holder_ = fork();
    if (holder_ == 0) HoldOneIn(pidfd_.get(), write_end.get());
    write_end.reset();
    char held = 0;
    exists_ = read(read_end.get(), &held, 1) == 1;
  }
  ~DyingProcess() {
    for (const pid_t pid : {pid_, holder_}) {
      if (pid > 0) kill(pid, SIGKILL);
    }
    LetDie();
  }
  DyingProcess(const DyingProcess&) = delete;
  DyingProcess& operator=(const DyingProcess&) = delete;

  // False where this user may make no namespaces.
  bool exists() const { return exists_; }
  pid_t pid() const { return pid_; }
  UniqueFd TakePidfd() { return std::move(pidfd_); }
  void LetDie() {
    if (holder_ <= 0) return;
    kill(holder_, SIGKILL);
    waitpid(std::exchange(holder_, 0), nullptr, 0);
  }

 private:
  [[noreturn]] static void Pause() {
    while (true) pause();
  }
  // A child of the calling process in the other's namespace, never reaped.
  [[noreturn]] static void HoldOneIn(int pidfd, int ready) {
    if (setns(pidfd, CLONE_NEWUSER | CLONE_NEWPID) != 0) _exit(1);
    const pid_t held = fork();
    if (held == 0) Pause();
    if (held > 0 && write(ready, "!", 1) == 1) Pause();
    _exit(1);
  }

  pid_t pid_ = 0;
  pid_t holder_ = 0;
  UniqueFd pidfd_;
  bool exists_ = false;
};

TEST_F(ProcessSetTest, WhatWasEndingBeforeTheStopDiedByItselfThoughItIsNotYetDead) {
  DyingProcess dying;
  if (!dying.exists()) GTEST_SKIP() << "user namespaces are not to be had here";
  ASSERT_TRUE(processes_.Add(0, dying.pid(), dying.TakePidfd()).ok());
  Start(1, "echo ready; exec sleep 1000");
  EXPECT_FALSE(IsEnding(dying.pid()));
  kill(dying.pid(), SIGKILL);
  while (!IsEnding(dying.pid())) std::this_thread::yield();
  processes_.Stop(Time(0));
  dying.LetDie();
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  std::map<int, core::Failure> by_rank;
  for (const auto& death : deaths_) by_rank[death.rank] = death;
  EXPECT_TRUE(by_rank[0].by_itself);
  EXPECT_FALSE(by_rank[1].by_itself);
}

TEST_F(ProcessSetTest, AProcessWhoseFirstThreadHasEndedIsNotEnding) {
  const pid_t pid = fork();
  if (pid == 0) {
    static const std::thread other([] { pause(); });
    syscall(SYS_exit, 0);  // of this thread alone
  }
  while (DescribeProcess(pid).find("state Z") == std::string::npos) std::this_thread::yield();
  EXPECT_FALSE(IsEnding(pid));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(ProcessSetTest, ADeadLeaderTakesItsGroupWithIt) {
  const pid_t leader = Start(0, "sleep 1000 & echo ready; wait");
  kill(leader, SIGKILL);
  // The pipe ends when the last holder of it, the sleeping child, is gone.
  EXPECT_TRUE(RunUntil([&] { return outputs_[0]->ended(); }));
}

TEST_F(ProcessSetTest, StopAsksFirstAndKillsAtTheDeadlineWhoeverIgnoresIt) {
  Start(0, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  Start(1, "trap '' TERM; echo ready; while :; do sleep 0.01; done");
  processes_.Stop(BootTime() + hours(1));
  ASSERT_TRUE(RunUntil([&] { return deaths_.size() == 1; }));
  processes_.Stop(BootTime() + milliseconds(100));
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  ASSERT_EQ(deaths_.size(), 2U);
  EXPECT_EQ(deaths_[0].exit_code, 7);
  EXPECT_EQ(deaths_[1].signal, SIGKILL);
  EXPECT_FALSE(deaths_[0].by_itself || deaths_[1].by_itself);
}

TEST_F(ProcessSetTest, ADeadlineInThePastKillsWithoutAsking) {
  Start(0, "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done");
  processes_.Stop(Time(0));
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_EQ(deaths_[0].signal, SIGKILL);
}

TEST_F(ProcessSetTest, ASecondStopMayBringTheDeadlineForwardButNotPutItOff) {
  Start(0, "trap '' TERM; echo ready; while :; do sleep 0.01; done");
  processes_.Stop(BootTime() + hours(1));
  processes_.Stop(Time(0));
  processes_.Stop(BootTime() + hours(1));
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
}

TEST_F(ProcessSetTest, ADaemonThatForkedTwiceIntoItsOwnSessionIsFoundByItsDescent) {
  // The leader ends by itself; the daemon lives on, re-parented to this process.
  Start(0, "(setsid sh -c 'setsid sleep 1000 & sleep 1000' &) ; echo ready; exit 0");
  ASSERT_TRUE(RunUntil([&] { return deaths_.size() == 1; }));
  EXPECT_EQ(deaths_[0].exit_code, 0);
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  ExpectAllGone();
  EXPECT_TRUE(RunUntil([&] { return outputs_[0]->ended(); }));
}

TEST_F(ProcessSetTest, AProgramThatForksAllTheTimeIsKilledToTheLastProcess) {
  Start(0,
        "fork() { (setsid sh -c 'sleep 1000' &) ; }; echo ready; "
        "while :; do fork; fork; fork; done");
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  ExpectAllGone();
}

TEST_F(ProcessSetTest, AStoppedProcessIsKilledToo) {
  const pid_t pid = Start(0, "echo ready; exec sleep 1000");
  kill(pid, SIGSTOP);
  processes_.Stop(BootTime() + milliseconds(20));
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
}

TEST_F(ProcessSetTest, StopWithNothingAliveIsGoneAtOnceButNotWithinTheCall) {
  processes_.Stop(BootTime() + hours(1));
  EXPECT_EQ(gone_, 0);
  Settle();
  EXPECT_EQ(gone_, 1);
}

TEST_F(ProcessSetTest, ServesOneGenerationAfterTheOther) {
  for (int generation = 1; generation <= 3; ++generation) {
    Start(0, "echo ready; exec sleep 1000");
    Start(1, "echo ready; exec sleep 1000");
    processes_.Stop(BootTime());
    ASSERT_TRUE(RunUntil([&] { return gone_ == generation; }));
    EXPECT_EQ(deaths_.size(), static_cast<size_t>(2 * generation));
  }
  EXPECT_EQ(unkillable_, "");
}

TEST_F(ProcessSetTest, WhileTheGuardKillsNothingIsReaped) {
  table_->BeginKilling();
  const pid_t pid = Start(0, "exit 0");
  ASSERT_TRUE(RunUntil([&] { return deaths_.size() == 1; }));
  siginfo_t info{};
  EXPECT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG), 0);
  EXPECT_EQ(info.si_pid, pid) << "its number must not be free yet";
  table_->EndKilling(Time(1));
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  ExpectAllGone();
}

}  // namespace
}  // namespace lockstep::agent
