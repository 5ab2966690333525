#include "cli/numa/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/worker/topology/fixture_tree.h"
#include "tests/worker/topology/machine_builder.h"

namespace lockstep::numa {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using topology::FixtureTree;
using topology::Machine;
using topology::MakeMachine;

int CountOf(const std::vector<Setting>& settings, Kind kind) {
  return static_cast<int>(std::count_if(settings.begin(), settings.end(),
                                        [&](const Setting& s) { return s.kind == kind; }));
}

TEST(BenchTest, TwoNodesAreComparedInEveryWay) {
  const Machine machine = MakeMachine().Node(0, 4).Node(1, 4);
  const std::vector<Setting> settings = Settings(machine);
  EXPECT_EQ(CountOf(settings, Kind::kBaseline), 1);
  EXPECT_EQ(CountOf(settings, Kind::kLocal), 2);
  EXPECT_EQ(CountOf(settings, Kind::kRemote), 2);
  EXPECT_EQ(CountOf(settings, Kind::kInterleaved), 3);  // each node's CPUs, and all
  EXPECT_EQ(CountOf(settings, Kind::kThreads), 3);      // 1, 2, 4
  EXPECT_EQ(CountOf(settings, Kind::kProcesses), 3);
  EXPECT_EQ(CountOf(settings, Kind::kLatency), 4);
  EXPECT_EQ(CountOf(settings, Kind::kMessages), 3);  // within each node, and between them
  for (const Setting& setting : settings) {
    if (setting.kind == Kind::kRemote) EXPECT_NE(setting.cpu_node, setting.memory_node());
    if (setting.kind == Kind::kLocal) EXPECT_EQ(setting.cpu_node, setting.memory_node());
  }
}

TEST(BenchTest, OneNodeHasNothingRemoteAndIsMeasuredAllTheSame) {
  const std::vector<Setting> settings = Settings(MakeMachine().Node(0, 3));
  EXPECT_EQ(CountOf(settings, Kind::kRemote), 0);
  EXPECT_EQ(CountOf(settings, Kind::kInterleaved), 0);
  EXPECT_EQ(CountOf(settings, Kind::kThreads), 3);  // 1, 2, 3
  EXPECT_EQ(CountOf(settings, Kind::kLatency), 1);
  EXPECT_EQ(CountOf(settings, Kind::kMessages), 1);
  EXPECT_EQ(settings.front().kind, Kind::kBaseline);
}

TEST(BenchTest, MessagesNeedTwoCoresAtTheSameTime) {
  EXPECT_EQ(CountOf(Settings(MakeMachine().Node(0, 1)), Kind::kMessages), 0);
  EXPECT_EQ(CountOf(Settings(MakeMachine().Node(0, 1).Node(1, 1)), Kind::kMessages), 1);
  Machine machine = MakeMachine().Node(0, 4);
  machine.cpu_quota = 1.5;
  EXPECT_EQ(CountOf(Settings(machine), Kind::kMessages), 0);
}

TEST(BenchTest, WorkingSetsGrowFromTheFirstCacheToTheLargestArray) {
  const std::vector<Setting> settings = SizeSettings(MakeMachine().Node(0, 2), size_t{3} << 20);
  std::vector<size_t> streams;
  std::vector<size_t> rounds;
  for (const Setting& setting : settings) {
    EXPECT_EQ(setting.work.cpus.size(), 1U);
    (setting.work.task == Task::kChase ? rounds : streams).push_back(setting.work.bytes);
  }
  EXPECT_EQ(rounds, (std::vector<size_t>{16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20}));
  EXPECT_EQ(streams.front(), (16U << 10) / 3);
  EXPECT_EQ(streams.back(), 1U << 20);
  EXPECT_THAT(SizeSettings(topology::WithoutTopology(""), 1 << 20), IsEmpty());
}

TEST(BenchTest, OneWorkerACoreAndOnlyWhereTheContainerMayBe) {
  const Machine machine = MakeMachine().Smt(2).Node(0, 4).AllowedCpus({0, 1, 2, 3, 6});
  for (const Setting& setting : Settings(machine)) {
    if (setting.kind == Kind::kLocal) EXPECT_THAT(setting.work.cpus, ElementsAre(0, 2, 6));
    if (setting.kind == Kind::kBaseline) EXPECT_THAT(setting.work.cpus, ElementsAre(-1, -1, -1));
  }
}

TEST(BenchTest, NoMoreWorkersThanTheCpuQuotaHasTimeForAndThoseAreSpread) {
  for (const Setting& setting : Settings(MakeMachine().Node(0, 8).Node(1, 8).Quota(4.5))) {
    EXPECT_LE(setting.work.cpus.size(), 4U) << ToString(setting.kind);
    if (setting.kind == Kind::kLocal && setting.cpu_node == 1) {
      EXPECT_THAT(setting.work.cpus, ElementsAre(8, 10, 12, 14));
    }
    if (setting.kind == Kind::kInterleaved && setting.cpu_node == -1) {
      EXPECT_THAT(setting.work.cpus, ElementsAre(0, 4, 8, 12));
    }
  }
  for (const Setting& setting : Settings(MakeMachine().Node(0, 8).Quota(0.5))) {
    EXPECT_EQ(setting.work.cpus.size(), 1U) << ToString(setting.kind);
  }
}

TEST(BenchTest, AQuotaIsReportedWhereItKeepsCoresIdle) {
  const Options none{.repetitions = 1, .only = {Kind::kRemote}};
  const auto quota = [&none](const Machine& machine) {
    return RunBench(machine, none, false, [](int, int) {})->cpu_quota;
  };
  EXPECT_EQ(quota(MakeMachine().Node(0, 8).Quota(4.5)), 4.5);
  EXPECT_EQ(quota(MakeMachine().Node(0, 8).Quota(8)), 0);
  EXPECT_EQ(quota(MakeMachine().Node(0, 8)), 0);
}

TEST(BenchTest, NodesWithoutAllowedCpusOrMemoryAreNotCompared) {
  EXPECT_THAT(ComparedNodes(MakeMachine().Node(0, 2).Node(1, 2).AllowedMems({1})), ElementsAre(1));
  EXPECT_THAT(ComparedNodes(MakeMachine().Node(0, 2).Node(1, 2).AllowedCpus({0})), ElementsAre(0));
  EXPECT_THAT(ComparedNodes(MakeMachine().Node(0, 2).AllowedMems({})), ElementsAre(0));  // unknown
}

TEST(BenchTest, AMachineOfUnknownNodesStillHasABaseline) {
  const std::vector<Setting> settings = Settings(topology::WithoutTopology("a test"));
  ASSERT_EQ(settings.size(), 1U);
  EXPECT_EQ(settings[0].kind, Kind::kBaseline);
  EXPECT_THAT(settings[0].work.memory, IsEmpty());
}

// Two packages of two CPUs, each with 32 MiB.
void AddCaches(FixtureTree* tree) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string caches = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index";
    tree->File(caches + "0/level", "1\n").File(caches + "0/size", "48K\n");
    tree->File(caches + "3/level", "3\n").File(caches + "3/size", "32768K\n");
    tree->File(caches + "3/shared_cpu_list", cpu < 2 ? "0-1\n" : "2-3\n");
  }
}

TEST(BenchTest, AnArrayIsFourTimesAllLastLevelCaches) {
  FixtureTree tree;
  AddCaches(&tree);
  tree.File("proc/meminfo", "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n");
  const Machine machine = MakeMachine().Node(0, 2).Node(1, 2);
  const ArraySize size = ChooseArraySize(machine, 0, tree.root());
  EXPECT_EQ(size.cache_bytes, 64U << 20);
  EXPECT_EQ(size.bytes, 256U << 20);
  EXPECT_TRUE(size.follows_rule);
}

TEST(BenchTest, AnArrayNeverTakesMoreThanASixthOfTheFreeMemory) {
  FixtureTree tree;
  AddCaches(&tree);
  tree.File("proc/meminfo", "MemAvailable: 600000 kB\n");
  const Machine machine = MakeMachine().Node(0, 2).Node(1, 2);
  ArraySize size = ChooseArraySize(machine, 0, tree.root());
  EXPECT_EQ(size.bytes, 600000U * 1024 / 6);
  EXPECT_FALSE(size.follows_rule);

  tree.File("proc/self/cgroup", "0::/pod\n");
  tree.File("sys/fs/cgroup/memory.max", "104857600\n")
      .File("sys/fs/cgroup/memory.current", "4857600\n");
  size = ChooseArraySize(machine, 0, tree.root());
  EXPECT_EQ(size.bytes, 100000000U / 6);
}

TEST(BenchTest, ACgroupOfVersion1LimitsAnArray) {
  FixtureTree tree;
  AddCaches(&tree);
  tree.File("proc/meminfo", "MemAvailable: 600000 kB\n");
  tree.File("proc/self/cgroup", "5:memory:/pod\n");
  tree.File("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.File("sys/fs/cgroup/memory/pod/memory.limit_in_bytes", "104857600\n")
      .File("sys/fs/cgroup/memory/pod/memory.usage_in_bytes", "64857600\n")
      .File("sys/fs/cgroup/memory/pod/memory.stat",
            "inactive_file 1\ntotal_inactive_file 60000000\n");
  EXPECT_EQ(ChooseArraySize(MakeMachine().Node(0, 2).Node(1, 2), 0, tree.root()).free_bytes,
            100000000U);
}

TEST(BenchTest, FilesThatNobodyUsesAreMemoryThatMayBeHad) {
  FixtureTree tree;
  tree.File("proc/meminfo", "MemAvailable: 600000 kB\n");
  tree.File("proc/self/cgroup", "0::/pod\n");
  tree.File("sys/fs/cgroup/memory.max", "104857600\n")
      .File("sys/fs/cgroup/memory.current", "104857600\n")
      .File("sys/fs/cgroup/memory.stat", "anon 5\ninactive_file 50000000\nactive_file 7\n");
  EXPECT_EQ(ChooseArraySize(MakeMachine().Node(0, 2), 0, tree.root()).free_bytes, 50000000U);
}

TEST(BenchTest, AFullCgroupLeavesTheLeastArrayAndNotWhatTheMachineHasFree) {
  FixtureTree tree;
  AddCaches(&tree);
  tree.File("proc/self/cgroup", "0::/pod\n");
  tree.File("sys/fs/cgroup/memory.max", "104857600\n")
      .File("sys/fs/cgroup/memory.current", "104861696\n");
  tree.File("sys/devices/system/node/node0/meminfo", "Node 0 MemFree: 6000000 kB\n");
  const ArraySize size = ChooseArraySize(MakeMachine().Node(0, 2), 0, tree.root());
  EXPECT_EQ(size.free_bytes, 0U);
  EXPECT_EQ(size.bytes, 1U << 20);
}

TEST(BenchTest, ASizeThatWasAskedForIsTakenAndJudged) {
  FixtureTree tree;
  AddCaches(&tree);
  const Machine machine = MakeMachine().Node(0, 2).Node(1, 2);
  EXPECT_FALSE(ChooseArraySize(machine, 255U << 20, tree.root()).follows_rule);
  EXPECT_TRUE(ChooseArraySize(machine, 256U << 20, tree.root()).follows_rule);
  EXPECT_EQ(ChooseArraySize(machine, 5U << 20, tree.root()).bytes, 5U << 20);
}

TEST(BenchTest, UnknownCachesAreNotTakenForFollowedRules) {
  const FixtureTree tree;
  const ArraySize size = ChooseArraySize(MakeMachine().Node(0, 2), 0, tree.root());
  EXPECT_EQ(size.cache_bytes, 0U);
  EXPECT_FALSE(size.follows_rule);
}

TEST(BenchTest, EverySettingOfThisMachineIsRunAsOftenAsAsked) {
  Result<Machine> machine = topology::Discover();
  if (!machine.ok()) machine = topology::WithoutTopology("");
  int last = 0;
  const Result<Report> report =
      RunBench(*machine, {.repetitions = 3, .array_bytes = 1 << 20}, false,
               [&](int done, int all) { last = done + 1 == all ? all : last; });
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(last, 3 * static_cast<int>(report->rows.size()));
  for (const Row& row : report->rows) {
    EXPECT_EQ(row.failed, "");
    const bool stream = row.setting.work.task == Task::kStream;
    EXPECT_EQ(stream ? row.bytes_per_second[3].count : row.nanoseconds.count, 3);
  }
}

TEST(BenchTest, OnlyTheKindsAskedForAreRun) {
  const Result<Report> report =
      RunBench(topology::WithoutTopology(""),
               {.repetitions = 1, .array_bytes = 1 << 20, .only = {Kind::kLatency}}, false,
               [](int, int) { FAIL() << "there is no latency without nodes"; });
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->rows, IsEmpty());
  for (int i = 0; i <= static_cast<int>(Kind::kMessages); ++i) {
    EXPECT_EQ(ParseKind(ToString(static_cast<Kind>(i))), static_cast<Kind>(i));
  }
  EXPECT_EQ(ParseKind("near"), std::nullopt);
}

TEST(BenchTest, ASettingThatCannotRunIsSaidAndTheOthersAreMeasured) {
  Machine machine = MakeMachine().Node(0, 1).Node(4000, 1);  // the second is not there
  machine.numa_nodes[1].cpus = machine.cores[1].cpus = {60000};
  machine.allowed_cpus = {0, 60000};
  const Result<Report> report =
      RunBench(machine, {.repetitions = 1, .array_bytes = 1 << 20}, false, [](int, int) {});
  ASSERT_TRUE(report.ok());
  for (const Row& row : report->rows) {
    if (row.setting.kind == Kind::kRemote) EXPECT_NE(row.failed, "");
    if (row.setting.kind == Kind::kBaseline) EXPECT_EQ(row.failed, "");
    EXPECT_FALSE(row.of_local) << "nothing here has both of its sides";
  }
}

}  // namespace
}  // namespace lockstep::numa
