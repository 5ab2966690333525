#include "worker/topology/effective.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RankBinding OnNodeOne() {
  RankBinding rank;
  rank.cpus = {2, 3};
  rank.numa_node = 1;
  rank.memory = MemoryPolicy::kPreferred;
  rank.memory_nodes = {1};
  return rank;
}

// Process 42 as /proc shows it.
EffectiveBinding ReadBackOf(const std::string& cpus, const std::string& policy,
                            const RankBinding& rank, BindingErrno result = {}) {
  FixtureTree tree;
  tree.File("proc/42/status", "Cpus_allowed_list:\t" + cpus + "\nMems_allowed_list:\t0-1\n");
  tree.File("proc/42/numa_maps", "55d0c000 " + policy + " file=/bin/sh mapped=4 N0=4\n");
  return ReadBack(42, Bind::kNode, rank, result, tree.root());
}

TEST(ReadBackTest, AllInEffectIsNode) {
  for (const char* policy : {"prefer:1", "prefer (many):1"}) {
    const EffectiveBinding effective = ReadBackOf("2-3", policy, OnNodeOne());
    EXPECT_EQ(effective.ToString(Bind::kNode), "Node (asked Node)");
    EXPECT_EQ(effective.memory_policy, policy);
    EXPECT_THAT(effective.cpus, ElementsAre(2, 3));
    EXPECT_THAT(effective.mems, ElementsAre(0, 1));
  }
}

TEST(ReadBackTest, AForbiddenMempolicyIsPartialAndNamed) {
  const EffectiveBinding effective =
      ReadBackOf("2-3", "default", OnNodeOne(), {.affinity = 0, .memory = EPERM});
  EXPECT_EQ(effective.ToString(Bind::kNode), "Partial (asked Node): set_mempolicy: EPERM");
}

TEST(ReadBackTest, NothingInEffectIsNone) {
  const EffectiveBinding effective =
      ReadBackOf("0-7", "default", OnNodeOne(), {.affinity = EPERM, .memory = EPERM});
  EXPECT_EQ(effective.ToString(Bind::kNode),
            "None (asked Node): sched_setaffinity: EPERM; set_mempolicy: EPERM");
}

TEST(ReadBackTest, CpusThatTheKernelChangedAreSeen) {
  const EffectiveBinding effective = ReadBackOf("2", "prefer:1", OnNodeOne());
  EXPECT_EQ(effective.mode, core::Binding::kPartial);
  EXPECT_EQ(effective.reason, "runs on CPUs 2, not on 2-3");
}

TEST(ReadBackTest, AnotherMemoryPolicyIsSeen) {
  RankBinding rank = OnNodeOne();
  rank.memory = MemoryPolicy::kStrict;
  EXPECT_EQ(ReadBackOf("2-3", "bind:1", rank).mode, core::Binding::kNode);
  const EffectiveBinding effective = ReadBackOf("2-3", "prefer:1", rank);
  EXPECT_EQ(effective.mode, core::Binding::kPartial);
  EXPECT_EQ(effective.reason, "memory policy is prefer:1");
}

TEST(ReadBackTest, WhatThePlanCouldNotDoIsPartOfTheReason) {
  RankBinding rank = OnNodeOne();
  rank.reason = "4 processes share 2 cores";
  EXPECT_EQ(ReadBackOf("2-3", "prefer:1", rank).ToString(Bind::kNode),
            "Partial (asked Node): 4 processes share 2 cores");
}

TEST(ReadBackTest, AProcessThatIsGoneIsSaidToBe) {
  FixtureTree tree;
  const EffectiveBinding effective = ReadBack(42, Bind::kNode, OnNodeOne(), {}, tree.root());
  EXPECT_EQ(effective.mode, core::Binding::kNone);
  EXPECT_THAT(effective.reason, HasSubstr("has the process ended?"));
}

// A process of this machine that was bound by ApplyInChild before it exec'ed.
class BoundProcess {
 public:
  explicit BoundProcess(const PreparedBinding& prepared) {
    int to_child[2];
    int from_child[2];
    EXPECT_EQ(pipe(to_child), 0);
    EXPECT_EQ(pipe(from_child), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const BindingErrno result = ApplyInChild(prepared);
      if (write(from_child[1], &result, sizeof result) < 0) _exit(1);
      dup2(to_child[0], STDIN_FILENO);
      dup2(from_child[1], STDOUT_FILENO);
      close(to_child[1]);
      // Says a byte once it is exec'ed, then lives until its standard input is closed.
      execl("/bin/sh", "sh", "-c", "printf x; read line", nullptr);
      _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    stdin_ = to_child[1];
    EXPECT_EQ(read(from_child[0], &result_, sizeof result_), static_cast<ssize_t>(sizeof result_));
    char byte = 0;
    EXPECT_EQ(read(from_child[0], &byte, 1), 1);
    close(from_child[0]);
  }
  ~BoundProcess() {
    close(stdin_);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  const BindingErrno& result() const { return result_; }

 private:
  pid_t pid_ = -1;
  int stdin_ = -1;
  BindingErrno result_;
};

TEST(ApplyInChildTest, ARealProcessIsBoundWhenItStartsAndReadBackSeesIt) {
  const Result<Machine> machine = Discover();
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  const BindingPlan plan = PlanBinding(
      *machine, {.mode = Bind::kNode, .processes = static_cast<int>(machine->cores.size())});
  const RankBinding& rank = plan.ranks.back();
  const BoundProcess process(Prepare(rank));
  const EffectiveBinding effective = ReadBack(process.pid(), Bind::kNode, rank, process.result());
  EXPECT_EQ(process.result().affinity, 0);
  EXPECT_EQ(effective.cpus, rank.cpus);
  EXPECT_NE(effective.mode, core::Binding::kNone) << effective.reason;
}

TEST(ApplyInChildTest, ARealMemoryPolicyIsInEffectOrItsRefusalIsReported) {
  const Result<Machine> machine = Discover();
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  RankBinding rank;
  rank.cpus = machine->allowed_cpus;
  rank.memory_nodes = {machine->allowed_mems.front()};
  for (const MemoryPolicy policy : {MemoryPolicy::kPreferred, MemoryPolicy::kStrict}) {
    rank.memory = policy;
    const BoundProcess process(Prepare(rank));
    const EffectiveBinding effective = ReadBack(process.pid(), Bind::kNode, rank, process.result());
    if (process.result().memory == 0) {
      EXPECT_EQ(effective.ToString(Bind::kNode), "Node (asked Node)");
    } else {
      EXPECT_THAT(effective.reason, HasSubstr("set_mempolicy: E"));
    }
  }
}

TEST(ApplyInChildTest, CpusThatDoNotExistAreReportedAndTheProcessStartsAnyway) {
  RankBinding rank;
  rank.cpus = {4000};
  const BoundProcess process(Prepare(rank));
  EXPECT_EQ(process.result().affinity, EINVAL);
  const EffectiveBinding effective = ReadBack(process.pid(), Bind::kNode, rank, process.result());
  EXPECT_EQ(effective.ToString(Bind::kNode), "None (asked Node): sched_setaffinity: EINVAL");
}

}  // namespace
}  // namespace lockstep::topology
