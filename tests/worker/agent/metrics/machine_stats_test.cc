#include "worker/agent/metrics/machine_stats.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::agent {
namespace {

using topology::FixtureTree;

// Of process 42; fields 14 and 15 are CPU ticks, 22 the start and 24 resident pages.
std::string Stat(const std::string& name, const std::string& state) {
  return "42 (" + name + ") " + state +
         " 1 42 42 0 -1 4194560 100 200 0 0 150 50 7 8 20 0 3 0 98765 104857600 256 "
         "18446744073709551615 1 1 0 0 0 0\n";
}

TEST(MachineStatsTest, AMachineThatTellsNothingHasNoValues) {
  FixtureTree tree;
  const MachineStats stats = MachineStatsReader(tree.root()).Read();
  EXPECT_FALSE(stats.memory_bytes);
  EXPECT_FALSE(stats.memory_limit_bytes);
  EXPECT_FALSE(stats.oom_events);
  EXPECT_FALSE(stats.oom_kills);
  EXPECT_FALSE(stats.cpu_throttled_seconds);
  EXPECT_FALSE(stats.shared_memory_used_bytes);
  EXPECT_FALSE(stats.shared_memory_size_bytes);
}

TEST(MachineStatsTest, ReadsAContainersOwnCgroupOfVersion2) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "0::/\n")
      .File("sys/fs/cgroup/memory.current", "1048576\n")
      .File("sys/fs/cgroup/memory.max", "2097152\n")
      .File("sys/fs/cgroup/memory.events", "low 0\nhigh 1\nmax 9\noom 4\noom_kill 3\n")
      .File("sys/fs/cgroup/cpu.stat", "usage_usec 100\nnr_throttled 2\nthrottled_usec 2500000\n");
  const MachineStats stats = MachineStatsReader(tree.root()).Read();
  EXPECT_EQ(stats.memory_bytes, 1048576U);
  EXPECT_EQ(stats.memory_limit_bytes, 2097152U);
  EXPECT_EQ(stats.oom_events, 4U);
  EXPECT_EQ(stats.oom_kills, 3U);
  EXPECT_EQ(stats.cpu_throttled_seconds, 2.5);
}

TEST(MachineStatsTest, ReadsTheInnermostCgroupAndTheTightestLimitAboveIt) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "0::/pods/pod1/worker\n")
      .File("sys/fs/cgroup/pods/memory.current", "900\n")
      .File("sys/fs/cgroup/pods/memory.max", "1000\n")
      .File("sys/fs/cgroup/pods/pod1/memory.current", "300\n")
      .File("sys/fs/cgroup/pods/pod1/memory.max", "500\n")
      .File("sys/fs/cgroup/pods/pod1/worker/memory.current", "200\n")
      .File("sys/fs/cgroup/pods/pod1/worker/memory.max", "max\n");
  const MachineStats stats = MachineStatsReader(tree.root()).Read();
  EXPECT_EQ(stats.memory_bytes, 200U);
  EXPECT_EQ(stats.memory_limit_bytes, 500U);
  EXPECT_FALSE(stats.oom_kills) << "there is no memory.events";
}

TEST(MachineStatsTest, FindsItsCgroupAtTheMountsRootWhenThePathIsTheHosts) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "0::/kubepods/burstable/pod1/abc\n")
      .File("sys/fs/cgroup/memory.current", "77\n");
  EXPECT_EQ(MachineStatsReader(tree.root()).Read().memory_bytes, 77U);
}

TEST(MachineStatsTest, APathAboveTheCgroupNamespaceDoesNotLeadOutOfTheMount) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "0::/../../other\n")
      .File("sys/other/memory.current", "1\n")
      .File("sys/fs/cgroup/memory.current", "77\n");
  EXPECT_EQ(MachineStatsReader(tree.root()).Read().memory_bytes, 77U);
}

TEST(MachineStatsTest, ReadsCgroupsOfVersion1) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "5:memory:/a\n4:cpu,cpuacct:/a\n0::/\n")
      .File("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4096\n")
      .File("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "8192\n")
      .File("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
      .File("sys/fs/cgroup/memory/a/memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n")
      .File("sys/fs/cgroup/cpu,cpuacct/a/cpu.stat", "nr_throttled 1\nthrottled_time 1500000000\n");
  const MachineStats stats = MachineStatsReader(tree.root()).Read();
  EXPECT_EQ(stats.memory_bytes, 4096U);
  EXPECT_EQ(stats.memory_limit_bytes, 8192U);
  EXPECT_FALSE(stats.oom_events) << "version 1 doesn't count them";
  EXPECT_EQ(stats.oom_kills, 6U);
  EXPECT_EQ(stats.cpu_throttled_seconds, 1.5);
}

TEST(MachineStatsTest, NoLimitIsNoValueInEitherVersion) {
  FixtureTree v2;
  v2.File("proc/self/cgroup", "0::/\n")
      .File("sys/fs/cgroup/memory.current", "1\n")
      .File("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_FALSE(MachineStatsReader(v2.root()).Read().memory_limit_bytes);
  FixtureTree v1;
  v1.File("proc/self/cgroup", "5:memory:/\n")
      .File("sys/fs/cgroup/memory/memory.usage_in_bytes", "1\n")
      .File("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(MachineStatsReader(v1.root()).Read().memory_limit_bytes);
}

TEST(MachineStatsTest, TextThatIsNoNumberIsNoValue) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "garbage\n0::/\n")
      .File("sys/fs/cgroup/memory.current", "12x\n")
      .File("sys/fs/cgroup/memory.events", "oom -1\noom_kill\n")
      .File("sys/fs/cgroup/cpu.stat", "throttled_usec 99999999999999999999999\n");
  const MachineStats stats = MachineStatsReader(tree.root()).Read();
  EXPECT_FALSE(stats.memory_bytes);
  EXPECT_FALSE(stats.oom_events);
  EXPECT_FALSE(stats.oom_kills);
  EXPECT_FALSE(stats.cpu_throttled_seconds);
}

TEST(MachineStatsTest, SharedMemoryCountsOnlyWhenItIsAMountOfItsOwn) {
  FixtureTree tree;
  tree.File("dev/shm/x", "x").File("proc/self/mounts", "overlay / overlay rw 0 0\n");
  EXPECT_FALSE(MachineStatsReader(tree.root()).Read().shared_memory_size_bytes);
  tree.File("proc/self/mounts", "overlay / overlay rw 0 0\nshm /dev/shm tmpfs rw 0 0\n");
  const MachineStats stats = MachineStatsReader(tree.root()).Read();
  ASSERT_TRUE(stats.shared_memory_size_bytes);
  ASSERT_TRUE(stats.shared_memory_used_bytes);
  EXPECT_LE(*stats.shared_memory_used_bytes, *stats.shared_memory_size_bytes);
}

TEST(MachineStatsTest, ReadsAProcessWhoseNameHoldsBlanksAndParentheses) {
  FixtureTree tree;
  tree.File("proc/42/stat", Stat("a) R 1 (b", "S"));
  const auto process = MachineStatsReader(tree.root()).ReadProcess(42);
  ASSERT_TRUE(process);
  EXPECT_DOUBLE_EQ(process->cpu_seconds, 200.0 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(process->start_ticks, 98765U);
  EXPECT_EQ(process->resident_bytes, 256U * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
}

TEST(MachineStatsTest, AZombieHasUsedTimeButNoMemory) {
  FixtureTree tree;
  tree.File("proc/42/stat", Stat("python", "Z"));
  const auto process = MachineStatsReader(tree.root()).ReadProcess(42);
  ASSERT_TRUE(process);
  EXPECT_GT(process->cpu_seconds, 0);
  EXPECT_FALSE(process->resident_bytes);
}

TEST(MachineStatsTest, AProcessThatIsGoneOrUnreadableHasNoValues) {
  FixtureTree tree;
  tree.File("proc/43/stat", "43 (x) S 1 2\n").File("proc/44/stat", "nonsense");
  const MachineStatsReader reader(tree.root());
  EXPECT_FALSE(reader.ReadProcess(42));
  EXPECT_FALSE(reader.ReadProcess(43));
  EXPECT_FALSE(reader.ReadProcess(44));
}

TEST(MachineStatsTest, ReadsThisProcessOnTheRealMachine) {
  const auto process = MachineStatsReader().ReadProcess(getpid());
  ASSERT_TRUE(process);
  EXPECT_GT(process->resident_bytes.value_or(0), 0U);
  EXPECT_GT(process->start_ticks, 0U);
}

}  // namespace
}  // namespace lockstep::agent
