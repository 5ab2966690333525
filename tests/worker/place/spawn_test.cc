#include "worker/place/spawn.h"

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/process/process.h"

namespace lockstep::place {
namespace {

// Many that are dead already, then a parent that dies as soon as the first of them is reaped, so
// that it can be reaped itself when its turn comes. Its child comes to us after the listing.
void SweepOneThatDiesMeanwhile() {
  constexpr size_t kDead = 100;
  std::array<pid_t, kDead> dead{};
  for (pid_t& pid : dead) {
    pid = fork();
    if (pid == 0) _exit(0);
    ASSERT_GT(pid, 0);
  }
  siginfo_t info{};
  for (const pid_t pid : dead) {
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  }
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const pid_t child = fork();
    if (child == 0) {
      setsid();
      for (;;) pause();
    }
    if (write(ends[1], &child, sizeof child) != sizeof child) _exit(1);
    while (kill(dead[0], 0) == 0) {
    }
    _exit(0);
  }
  pid_t daemon = 0;
  ASSERT_EQ(read(ends[0], &daemon, sizeof daemon), static_cast<ssize_t>(sizeof daemon));
  close(ends[0]);
  close(ends[1]);

  while (!SweepOrphans({})) {
  }
  EXPECT_TRUE(kill(daemon, 0) == -1 && errno == ESRCH) << "it lives on";
  kill(daemon, SIGKILL);
}

TEST(SweepOrphans, AProcessThatDiesMeanwhileLeavesNothingBehind) {
  ASSERT_TRUE(BecomeSubreaper().ok());
  for (int i = 0; i < 8 && !HasFailure(); ++i) SweepOneThatDiesMeanwhile();
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// As process 1 of a namespace it would otherwise never get what is sent before it listens.
TEST(SpawnAgent, WhatAsksItToLeaveBeforeItListensIsKept) {
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  ASSERT_TRUE(spawner.ok());
  SpawnSpec spec;
  spec.program = "/bin/grep";
  spec.arguments = {"SigBlk", "/proc/self/status"};
  spec.isolation = Isolation::kNamespace;
  Result<SpawnedAgent> agent = SpawnAgent(spawner->get(), spec);
  if (!agent.ok()) GTEST_SKIP() << agent.error().message;
  ASSERT_EQ(waitpid(agent->pid, nullptr, 0), agent->pid);
  std::array<char, 256> said{};
  ASSERT_GT(read(agent->output.get(), said.data(), said.size() - 1), 0);
  uint64_t blocked = 0;
  ASSERT_EQ(std::sscanf(said.data(), "SigBlk: %" SCNx64, &blocked), 1) << said.data();
  for (const int number : {SIGTERM, SIGINT}) {
    EXPECT_TRUE(blocked & (uint64_t{1} << (number - 1))) << number;
  }
}

// What it writes.
std::string Said(const SpawnedAgent& agent) {
  std::string said;
  EXPECT_EQ(waitpid(agent.pid, nullptr, 0), agent.pid);
  std::array<char, 4096> block{};
  ssize_t got = 0;
  while ((got = read(agent.output.get(), block.data(), block.size())) > 0) {
    said.append(block.data(), static_cast<size_t>(got));
  }
  return said;
}

TEST(SpawnAgent, AMachineHasAHostNameThatItsOwnHostsFileKnows) {
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  ASSERT_TRUE(spawner.ok());
  const std::string hosts = testing::TempDir() + "hosts";
  ASSERT_TRUE(WriteFileAtomically(hosts, "127.9.9.2\tgpt-1\n").ok());
  const std::string computers = OwnHostName();
  SpawnSpec spec;
  spec.program = "/bin/cat";
  spec.arguments = {"/proc/sys/kernel/hostname", "/etc/hosts"};
  spec.isolation = Isolation::kNamespace;
  spec.host_name = "gpt-1";
  spec.hosts_file = hosts;
  Result<SpawnedAgent> agent = SpawnIsolated(spawner->get(), &spec, [](const Error&) {});
  ASSERT_TRUE(agent.ok()) << agent.error().message;
  EXPECT_EQ(agent->host_named, spec.isolation != Isolation::kNone);
  const std::string said = Said(*agent);
  if (agent->host_named) EXPECT_EQ(said, "gpt-1\n127.9.9.2\tgpt-1\n");
  EXPECT_EQ(OwnHostName(), computers);

  spec.hosts_file = hosts + ".none";
  agent = SpawnIsolated(spawner->get(), &spec, [](const Error&) {});
  ASSERT_TRUE(agent.ok()) << agent.error().message;
  EXPECT_FALSE(agent->host_named);
  EXPECT_THAT(Said(*agent), testing::StartsWith(computers + "\n"))
      << "a name that resolves nowhere is worse than the computer's";
}

}  // namespace
}  // namespace lockstep::place
