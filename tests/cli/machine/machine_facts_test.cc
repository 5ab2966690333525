#include "cli/machine/machine_facts.h"

#include <gtest/gtest.h>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::cli {
namespace {

std::string ValueOf(const std::vector<MachineFact>& facts, const std::string& name) {
  for (const MachineFact& fact : facts) {
    if (fact.name == name) return fact.value;
  }
  return "no such fact";
}

TEST(MachineFactsTest, SettingsAreReadWhereTheKernelShowsThem) {
  topology::FixtureTree tree;
  tree.File("proc/self/status", "Name:\tx\nCapBnd:\t0000\nSeccomp:\t2\nCpus_allowed_list:\t0-3\n")
      .File("proc/cpuinfo", "processor\t: 0\nmodel name\t: A processor\nflags\t: a\n")
      .File("proc/sys/kernel/numa_balancing", "1\n")
      .File("proc/self/cgroup", "0::/kubepods/pod8f2c\n")
      .File("sys/fs/cgroup/kubepods/pod8f2c/memory.max", "1073741824\n")
      .File("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  const std::vector<MachineFact> facts = ReadMachineFacts(tree.root());
  EXPECT_EQ(ValueOf(facts, "seccomp mode"), "2");
  EXPECT_EQ(ValueOf(facts, "allowed CPUs"), "0-3");
  EXPECT_EQ(ValueOf(facts, "kernel.numa_balancing"), "1");
  EXPECT_EQ(ValueOf(facts, "cgroup memory limit"), "1073741824");
  EXPECT_EQ(ValueOf(facts, "processor"), "A processor");
  EXPECT_EQ(ValueOf(facts, "NVIDIA driver"), "");
  EXPECT_EQ(DumpJson(ToJson(facts)).find("pod8f2c"), std::string::npos) << "names a pod";
}

TEST(MachineFactsTest, AMachineThatShowsNothingGivesNullsAndNoError) {
  const topology::FixtureTree tree;
  const OrderedJson json = ToJson(ReadMachineFacts(tree.root()));
  EXPECT_TRUE(json["seccomp mode"]["value"].is_null());
  EXPECT_EQ(json["seccomp mode"]["source"], "/proc/self/status: Seccomp");
}

}  // namespace
}  // namespace lockstep::cli
