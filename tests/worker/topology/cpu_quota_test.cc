#include "worker/topology/cpu_quota.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::topology {
namespace {

using ::testing::HasSubstr;

TEST(CpuQuotaTest, V2LimitOfTheOwnCgroup) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "0::/\n").File("sys/fs/cgroup/cpu.max", "150000 100000\n");
  const CpuQuota quota = ReadCpuQuota(tree.root());
  EXPECT_DOUBLE_EQ(quota.cpus, 1.5);
  EXPECT_EQ(quota.source, "/sys/fs/cgroup/cpu.max");
}

TEST(CpuQuotaTest, TheTightestLimitOnTheWayUpCounts) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "0::/kubepods/pod1/c1\n");
  tree.File("sys/fs/cgroup/kubepods/cpu.max", "6400000 100000\n");
  tree.File("sys/fs/cgroup/kubepods/pod1/cpu.max", "400000 100000\n");
  tree.File("sys/fs/cgroup/kubepods/pod1/c1/cpu.max", "max 100000\n");
  const CpuQuota quota = ReadCpuQuota(tree.root());
  EXPECT_DOUBLE_EQ(quota.cpus, 4);
  EXPECT_EQ(quota.source, "/sys/fs/cgroup/kubepods/pod1/cpu.max");
}

TEST(CpuQuotaTest, V1LimitIsFoundAtTheMountWhenThePathIsTheHosts) {
  FixtureTree tree;
  tree.File("proc/self/cgroup", "9:name=systemd:/docker/abc\n4:cpu,cpuacct:/docker/abc\n");
  tree.File("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
  tree.File("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(ReadCpuQuota(tree.root()).cpus, 2);
}

TEST(CpuQuotaTest, NoLimitAndNonsenseAreNoLimit) {
  for (const char* text : {"max 100000\n", "garbage\n", "", "-1 100000\n", "100000 0\n"}) {
    FixtureTree tree;
    tree.File("proc/self/cgroup", "0::/\n").File("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(ReadCpuQuota(tree.root()).cpus, 0) << text;
  }
  FixtureTree v1;
  v1.File("proc/self/cgroup", "1:cpu:/\n").File("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  v1.File("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(ReadCpuQuota(v1.root()).cpus, 0);
  EXPECT_THAT(ReadCpuQuota(v1.root()).source, HasSubstr("no limit"));
}

}  // namespace
}  // namespace lockstep::topology
