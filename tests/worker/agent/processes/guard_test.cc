// A real guard process of this test program.
#include "worker/agent/processes/guard.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/agent/processes/process_test_base.h"
#include "worker/agent/processes/descendants.h"

namespace lockstep::agent {
namespace {

constexpr char kSelf[] = "/proc/self/exe";

class GuardTest : public ProcessTest {
 protected:
  void StartGuard() {
    auto guard = Guard::Start(
        loop(), spawner_.get(), table_.get(), kSelf,
        [this](pid_t pid) {
          guards_.push_back(pid);
          processes_.SetGuard(pid);
        },
        [this](const std::string& reason) { lost_ = reason; });
    ASSERT_TRUE(guard.ok()) << guard.error().message;
    guard_ = std::move(*guard);
  }
  bool ExtendInTime();

  std::vector<pid_t> guards_;
  std::string lost_;
  std::unique_ptr<Guard> guard_;
};

TEST_F(GuardTest, KillsTheRanksAndTheirDaemonsWhenTheLeaseEnds) {
  StartGuard();
  Start(0, "(setsid sleep 1000 &); echo ready; exec sleep 1000");
  const Time end = BootTime() + milliseconds(50);
  guard_->SetLeaseEnd(end);
  ASSERT_TRUE(RunUntil([&] { return deaths_.size() == 1 && outputs_[0]->ended(); }));
  EXPECT_EQ(deaths_[0].signal, SIGKILL);
  EXPECT_GE(deaths_[0].at, end);
  EXPECT_TRUE(RunUntil([&] { return table_->killed_for() == end; }));
}

// False: this process got no core in time for one of the extensions, and the guard was right to
// kill.
bool GuardTest::ExtendInTime() {
  Time end = kNever;
  for (int i = 1; i <= 20; ++i) {
    const Time before = std::exchange(end, BootTime() + milliseconds(100));
    guard_->SetLeaseEnd(end);
    if (BootTime() >= before) return false;
    bool due = false;
    loop()->StartTimer(BootTime() + milliseconds(10), [&] { due = true; });
    EXPECT_TRUE(RunUntil([&] { return due; }));
  }
  guard_->SetLeaseEnd(kNever);
  return BootTime() < end;
}

TEST_F(GuardTest, ALeaseThatIsExtendedKillsNobody) {
  StartGuard();
  Start(0, "echo ready; exec sleep 1000");
  while (!ExtendInTime()) {
    guard_->SetLeaseEnd(kNever);
    processes_.Stop(BootTime());
    ASSERT_TRUE(RunUntil([&] { return std::exchange(gone_, 0) == 1; }));
    deaths_.clear();
    Start(0, "echo ready; exec sleep 1000");
  }
  EXPECT_TRUE(deaths_.empty());
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_FALSE(deaths_[0].by_itself) << "the guard killed it";
}

TEST_F(GuardTest, AnEarlierEndCountsAtOnce) {
  StartGuard();
  Start(0, "echo ready; exec sleep 1000");
  guard_->SetLeaseEnd(BootTime() + hours(1));
  Settle();
  guard_->SetLeaseEnd(BootTime());
  EXPECT_TRUE(RunUntil([&] { return deaths_.size() == 1; }));
}

TEST_F(GuardTest, AKilledGuardIsReplacedAndTheNewOneKnowsTheLease) {
  StartGuard();
  Start(0, "echo ready; exec sleep 1000");
  kill(guard_->pid(), SIGKILL);
  guard_->SetLeaseEnd(BootTime() + milliseconds(300));
  ASSERT_TRUE(RunUntil([&] { return deaths_.size() == 1; }));
  EXPECT_EQ(deaths_[0].signal, SIGKILL);
  ASSERT_EQ(guards_.size(), 3U);  // the first, none, the second
  EXPECT_NE(guards_[0], guards_[2]);
  EXPECT_EQ(lost_, "");
}

TEST_F(GuardTest, AGuardThatKeepsDyingIsTold) {
  auto guard = Guard::Start(
      loop(), spawner_.get(), table_.get(), "/bin/false", [](pid_t) {},
      [this](const std::string& reason) { lost_ = reason; });
  ASSERT_TRUE(guard.ok());
  ASSERT_TRUE(RunUntil([&] { return !lost_.empty(); }));
  EXPECT_NE(lost_.find("died 3 times"), std::string::npos) << lost_;
}

TEST_F(GuardTest, StoppingAGenerationLeavesTheGuardAlive) {
  StartGuard();
  Start(0, "echo ready; exec sleep 1000");
  processes_.Stop(BootTime());
  ASSERT_TRUE(RunUntil([&] { return gone_ == 1; }));
  EXPECT_EQ(guards_.size(), 1U);
  EXPECT_EQ(kill(guard_->pid(), 0), 0);
}

struct NoOwner final : ProcessSet::Owner {
  void OnDeath(core::Failure /*death*/) override {}
  void OnGone() override {}
  void OnUnkillable(const std::string& /*processes*/) override {}
};

// An agent in a process of its own, which then stops or dies. It writes one byte when it is ready;
// its rank holds the pipe too, so the pipe ends when agent, rank and daemon are all gone.
[[noreturn]] void BeAgent(int report, Duration lease) {
  auto loop = std::move(*EventLoop::Create());
  auto spawner = std::move(*Spawner::Create());
  auto table = std::move(*LiveTable::Create());
  NoOwner owner;
  ProcessSet processes(loop.get(), table.get(), &owner);
  auto guard = Guard::Start(
      loop.get(), spawner.get(), table.get(), kSelf, [&](pid_t pid) { processes.SetGuard(pid); },
      [](const std::string&) {});
  SpawnRequest request = Shell("(sleep 1000 >&3 &); exec sleep 1000");
  request.extra_fds = {report};
  SpawnResult result = spawner->Spawn(request);
  auto& process = std::get<SpawnedProcess>(result);
  if (!processes.Add(0, process.pid, std::move(process.pidfd)).ok()) _exit(1);
  (*guard)->SetLeaseEnd(lease == Duration::max() ? kNever : BootTime() + lease);
  if (write(report, "r", 1) != 1) _exit(1);
  loop->Run();
  _exit(0);
}

class StoppedAgentTest : public LoopTest {
 protected:
  void Fork(Duration lease) {
    std::array<int, 2> fds{};
    ASSERT_EQ(pipe2(fds.data(), O_CLOEXEC), 0);
    agent_ = fork();
    if (agent_ == 0) {
      close(fds[0]);
      BeAgent(fds[1], lease);
    }
    close(fds[1]);
    fcntl(fds[0], F_SETFL, O_NONBLOCK);
    output_ = std::make_unique<Output>(loop(), UniqueFd(fds[0]));
    ASSERT_TRUE(RunUntil([&] { return !output_->text().empty(); }));
  }
  pid_t agent_ = 0;
  std::unique_ptr<Output> output_;
};

TEST_F(StoppedAgentTest, ItsRanksDieAtTheEndOfTheirLease) {
  Fork(milliseconds(500));
  kill(agent_, SIGSTOP);
  // Agent and guard hold no copy of the rank's pipe but the agent's own: let it go with the agent.
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(agent_), &info, WSTOPPED), 0);
  const auto ranks_are_dead = [&] {
    for (const Descendant& descendant : DescendantsOf(agent_, {})) {
      if (DescribeProcess(descendant.pid).find("(sleep, state S)") != std::string::npos)
        return false;
    }
    return true;
  };
  // Looks once in 5 ms: the stopped agent cannot tell, and its children are not ours to wait for.
  bool dead = false;
  std::function<void()> look = [&] {
    dead = ranks_are_dead();
    if (!dead) loop()->StartTimer(BootTime() + milliseconds(5), look);
  };
  look();
  EXPECT_TRUE(RunUntil([&] { return dead; }));
  kill(agent_, SIGKILL);
  waitpid(agent_, nullptr, 0);
  EXPECT_TRUE(RunUntil([&] { return output_->ended(); }));
}

TEST_F(StoppedAgentTest, ItsRanksDieWithAnAgentThatIsKilled) {
  Fork(Duration::max());
  kill(agent_, SIGKILL);
  waitpid(agent_, nullptr, 0);
  EXPECT_TRUE(RunUntil([&] { return output_->ended(); }));
}

}  // namespace
}  // namespace lockstep::agent
