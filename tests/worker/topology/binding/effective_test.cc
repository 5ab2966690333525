#include "worker/topology/binding/effective.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/worker/topology/fixture_tree.h"
#include "tests/worker/topology/machine_builder.h"

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

// Process 42 as /proc shows it, with these pages of 4 KiB on nodes 0 and 1.
EffectiveBinding ReadBackOf(const std::string& cpus, const std::string& policy,
                            const RankBinding& rank, BindingErrno result = {},
                            const std::string& pages = "N0=10 N1=4000", bool was_as_asked = false) {
  FixtureTree tree;
  tree.File("proc/42/status", "Cpus_allowed_list:\t" + cpus + "\nMems_allowed_list:\t0-1\n");
  tree.File("proc/42/numa_maps", "55d0c000 " + policy + " file=/bin/sh mapped=4 N0=4\n7f00 " +
                                     policy + " heap anon=9 " + pages + " kernelpagesize_kB=4\n");
  return ReadBack({42, Bind::kNode, rank, result, {{1}, {0}}, was_as_asked}, tree.root());
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

// What a restricted pod gets: containerd's RuntimeDefault, and no capability.
TEST(ReadBackTest, AForbiddenPreferenceIsAlignedWhereFirstTouchIsLocal) {
  const BindingErrno refused = {.affinity = 0, .memory = EPERM};
  EXPECT_EQ(ReadBackOf("2-3", "default", OnNodeOne(), refused).ToString(Bind::kNode),
            "Node (asked Node): memory by first touch (set_mempolicy: EPERM)");
  EXPECT_EQ(ReadBackOf("2-3", "default", OnNodeOne(), refused).reason, "");
  EXPECT_EQ(ReadBackOf("2-3", "default", OnNodeOne(), refused, "N0=4000 N1=4000").reason,
            "50 % of its memory is not on NUMA node 1");
}

TEST(ReadBackTest, APolicyThatFirstTouchCannotReplaceNamesItsRemedy) {
  RankBinding rank = OnNodeOne();
  for (const MemoryPolicy policy : {MemoryPolicy::kStrict, MemoryPolicy::kInterleave}) {
    rank.memory = policy;
    const EffectiveBinding effective =
        ReadBackOf("2-3", "default", rank, {.affinity = 0, .memory = EPERM});
    EXPECT_EQ(effective.ToString(Bind::kNode),
              "Partial (asked Node): set_mempolicy: EPERM, give the container the capability "
              "SYS_NICE");
  }
}

TEST(ReadBackTest, APreferenceIsNeededWhereNoCpusAreBound) {
  RankBinding rank = OnNodeOne();
  rank.cpus = {};
  EXPECT_EQ(ReadBackOf("0-7", "default", rank, {.affinity = 0, .memory = EPERM}).mode,
            core::Binding::kNone);
}

TEST(ReadBackTest, MemoryElsewhereIsPartialUnlessItIsLittle) {
  EXPECT_EQ(ReadBackOf("2-3", "prefer:1", OnNodeOne(), {}, "N0=4000 N1=6000").ToString(Bind::kNode),
            "Partial (asked Node): 40 % of its memory is not on NUMA node 1");
  EXPECT_EQ(ReadBackOf("2-3", "prefer:1", OnNodeOne(), {}, "N0=900 N1=9100").mode,
            core::Binding::kNode)
      << "less than a tenth";
  EXPECT_EQ(ReadBackOf("2-3", "prefer:1", OnNodeOne(), {}, "N0=900").mode, core::Binding::kNode)
      << "less than 4 MiB: what it was born with";
}

TEST(ReadBackTest, EveryModeThatIsInEffectIsSaidAsItWasAsked) {
  FixtureTree tree;
  tree.File("proc/42/status", "Cpus_allowed_list:\t2-3\n");
  for (const Bind bind : {Bind::kNode, Bind::kSocket, Bind::kCoreComplex, Bind::kExclusive,
                          Bind::kInterleave, Bind::kMap}) {
    const EffectiveBinding effective =
        ReadBack({42, bind, OnNodeOne(), {}, {{1}, {0}}}, tree.root());
    EXPECT_STREQ(core::ToString(effective.mode), core::ToString(bind));
    EXPECT_TRUE(core::IsAsAsked(effective.mode));
  }
}

TEST(PlacementTest, CountsAProcesssOwnPagesInTheirSizes) {
  const MemoryPlacement placement = PlacementOf(
      "1000 default file=/usr/lib/libtorch.so mapped=900 N0=900 kernelpagesize_kB=4\n"
      "2000 default heap anon=3 dirty=3 N0=1 N1=2 kernelpagesize_kB=4\n"
      "3000 default file=/anon_hugepage\\040(deleted) huge anon=1 N1=1 kernelpagesize_kB=2048\n"
      "4000 default stack:12 anon=1 N10=1 kernelpagesize_kB=4\n5000 default\n",
      {.local = {1}, .remote = {0, 10}});
  EXPECT_EQ(placement.local_bytes, (8U << 10) + (2U << 20));
  EXPECT_EQ(placement.remote_bytes, 8U << 10);
}

TEST(PlacementTest, MemoryOfNodesWithoutCpusIsNeitherNearNorFar) {
  Machine machine = MakeMachine().Node(0, 2).Node(1, 2).MemoryNode(2, {20, 40});
  const MemoryPlacement placement =
      PlacementOf("2000 default heap anon=900 N1=1 N2=900 kernelpagesize_kB=4\n",
                  LocalityOf(machine, OnNodeOne()));
  EXPECT_EQ(placement, (MemoryPlacement{.local_bytes = 4 << 10, .remote_bytes = 0}));
}

TEST(PlacementTest, ReadingTakesAHundredthOfTheGangsTimeHoweverManyItsMachines) {
  EXPECT_EQ(PlacementPause(milliseconds(10), 8), seconds(60));
  EXPECT_EQ(PlacementPause(milliseconds(200), 8), seconds(160));
  EXPECT_EQ(PlacementPause(milliseconds(200), 1000), seconds(20'000));
}

TEST(LocalityTest, IsThatOfTheMemoryPolicyOrElseOfTheCpus) {
  const Machine machine = MakeMachine().Node(0, 2).Node(1, 2);
  RankBinding rank = OnNodeOne();
  EXPECT_THAT(LocalityOf(machine, rank).local, ElementsAre(1));
  EXPECT_THAT(LocalityOf(machine, rank).remote, ElementsAre(0));
  rank.memory_nodes = {};
  EXPECT_THAT(LocalityOf(machine, rank).local, ElementsAre(1));
  rank.cpus = {1, 2};
  EXPECT_THAT(LocalityOf(machine, rank).remote, ElementsAre()) << "nowhere is far away";
  rank.cpus = {};
  EXPECT_THAT(LocalityOf(machine, rank).remote, ElementsAre()) << "not bound";
  EXPECT_THAT(LocalityOf(MakeMachine().Node(1, 4), OnNodeOne()).remote, ElementsAre());
}

TEST(ReadBackTest, NothingInEffectIsNone) {
  const EffectiveBinding effective =
      ReadBackOf("0-7", "default", OnNodeOne(), {.affinity = EPERM, .memory = EPERM});
  EXPECT_EQ(effective.ToString(Bind::kNode),
            "None (asked Node): sched_setaffinity: EPERM; set_mempolicy: EPERM, give the "
            "container the capability SYS_NICE");
}

TEST(ReadBackTest, CpusThatTheKernelChangedAreSeen) {
  const EffectiveBinding effective = ReadBackOf("1-2", "prefer:1", OnNodeOne());
  EXPECT_EQ(effective.mode, core::Binding::kPartial);
  EXPECT_EQ(effective.reason, "runs on CPUs 1-2, not on 2-3");
}

TEST(ReadBackTest, AProcessThatNarrowsItselfIsAsAsked) {
  EXPECT_EQ(ReadBackOf("2", "prefer:1", OnNodeOne()).ToString(Bind::kNode),
            "Node (asked Node): narrowed by the process to CPUs 2");
  EXPECT_EQ(ReadBackOf("2", "default", OnNodeOne(), {.affinity = 0, .memory = EPERM}).note,
            "narrowed by the process to CPUs 2; memory by first touch (set_mempolicy: EPERM)");
}

TEST(ReadBackTest, WhatAProcessChangesAfterItWasAsAskedIsNoReason) {
  RankBinding strict = OnNodeOne();
  strict.memory = MemoryPolicy::kStrict;
  const std::string pages = "N0=4000 N1=4000";
  EXPECT_EQ(
      ReadBackOf("0-3", "bind:1", strict, {}, pages, true).ToString(Bind::kNode),
      "Node (asked Node): by the process itself: runs on CPUs 0-3, not on 2-3; 50 % of its memory "
      "is not on NUMA node 1");
  EXPECT_EQ(ReadBackOf("2-3", "interleave:0-1", strict, {}, pages, true).reason, "");
  EXPECT_EQ(ReadBackOf("2-3", "bind:1", strict, {}, pages, true).reason,
            "50 % of its memory is not on NUMA node 1")
      << "it changed nothing";
}

TEST(ReadBackTest, AsAskedIsSaidOnlyWhereSomethingWasPlanned) {
  RankBinding rank;
  EXPECT_EQ(ReadBackOf("0-7", "default", rank).ToString(Bind::kNode),
            "None (asked Node): no CPUs were planned");
  rank.reason = "the machine has no cores";
  EXPECT_EQ(ReadBackOf("0-7", "default", rank).reason, rank.reason);
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
  const EffectiveBinding effective = ReadBack({42, Bind::kNode, OnNodeOne(), {}, {}}, tree.root());
  EXPECT_EQ(effective.mode, core::Binding::kNone);
  EXPECT_THAT(effective.reason, HasSubstr("has the process ended?"));
}

// A process of this machine that was bound by ApplyInChild before it exec'ed.
class ChildProcess {
 public:
  explicit ChildProcess(const PreparedBinding& prepared) {
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
  ~ChildProcess() {
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
  const ChildProcess process(Prepare(rank));
  const EffectiveBinding effective =
      ReadBack({process.pid(), Bind::kNode, rank, process.result(), {}});
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
    const ChildProcess process(Prepare(rank));
    const EffectiveBinding effective =
        ReadBack({process.pid(), Bind::kNode, rank, process.result(), {}});
    if (process.result().memory == 0) {
      EXPECT_EQ(effective.ToString(Bind::kNode), "Node (asked Node)");
    } else {
      EXPECT_THAT(effective.ToString(Bind::kNode), HasSubstr("set_mempolicy: E"));
    }
  }
}

TEST(ApplyInChildTest, CpusThatDoNotExistAreReportedAndTheProcessStartsAnyway) {
  RankBinding rank;
  rank.cpus = {4000};
  const ChildProcess process(Prepare(rank));
  EXPECT_EQ(process.result().affinity, EINVAL);
  const EffectiveBinding effective =
      ReadBack({process.pid(), Bind::kNode, rank, process.result(), {}});
  EXPECT_EQ(effective.ToString(Bind::kNode), "None (asked Node): sched_setaffinity: EINVAL");
}

}  // namespace
}  // namespace lockstep::topology
