#include "tests/worker/topology/machine_xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "worker/topology/plan/binding_plan.h"

namespace lockstep::topology::machine_xml_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Machine Read(const XmlMachine& machine) {
  const XmlFile file(machine);
  Result<Machine> read = DiscoverXml(file.path());
  if (!read.ok()) {
    ADD_FAILURE() << read.error().message;
    return {};
  }
  return std::move(*read);
}

std::string CpusWithoutReasons(const BindingPlan& plan) {
  std::string text;
  for (const RankBinding& rank : plan.ranks) {
    EXPECT_EQ(rank.reason, "");
    text += (text.empty() ? "" : " | ") + FormatIndexList(rank.cpus);
  }
  return text;
}

TEST(MachineXmlTest, ADgxIsReadWhole) {
  const Machine machine = Read(DgxLike());
  EXPECT_EQ(Summary(machine), "2 packages, 2 NUMA nodes, 112 cores, 8 GPUs, 8 network cards");
  EXPECT_THAT(machine.numa_nodes.at(1).distances, ElementsAre(21, 10));
  EXPECT_EQ(machine.numa_nodes.at(1).package, 1);
  EXPECT_EQ(machine.numa_nodes.at(1).memory_bytes, 500'000'000'000);
  EXPECT_THAT(machine.cores.at(0).cpus, ElementsAre(0, 112));
  EXPECT_THAT(machine.caches, SizeIs(2));
  EXPECT_EQ(machine.gpus.at(4).uuid, "GPU-4");
  EXPECT_EQ(machine.gpus.at(4).numa_node, 1);
  ASSERT_THAT(machine.switches, SizeIs(4));
  EXPECT_THAT(machine.switches.at(3).gpus, ElementsAre(6, 7));
  EXPECT_THAT(machine.switches.at(3).nics, ElementsAre(6, 7));
}

TEST(MachineXmlTest, ADgxGivesEachOfEightProcessesItsSocketAndTheCardsOfItsSwitch) {
  const Machine machine = Read(DgxLike());
  const BindingPlan plan = PlanBinding(machine, {.processes = 8});
  const std::string near = "0-55,112-167";
  const std::string far = "56-111,168-223";
  EXPECT_EQ(CpusWithoutReasons(plan), near + " | " + near + " | " + near + " | " + near + " | " +
                                          far + " | " + far + " | " + far + " | " + far);
  EXPECT_THAT(plan.ranks[5].nics, ElementsAre("mlx5_4", "mlx5_5"));
  EXPECT_EQ(plan.ranks[5].omp_threads, 14);
  EXPECT_EQ(CpusWithoutReasons(PlanBinding(machine, {.mode = Bind::kExclusive, .processes = 8}))
                .substr(0, 15),
            "0-13,112-125 | ");
}

TEST(MachineXmlTest, AnEpycInNps4BindsToQuartersOfItsSocketsInTheGpusOrder) {
  const Machine machine = Read(EpycNps4());
  EXPECT_EQ(Summary(machine), "2 packages, 8 NUMA nodes, 128 cores, 8 GPUs, 8 network cards");
  const BindingPlan node = PlanBinding(machine, {.processes = 8});
  EXPECT_EQ(node.ranks[0].numa_node, 3);
  EXPECT_EQ(node.ranks[2].numa_node, 1);
  EXPECT_EQ(node.ranks[4].numa_node, 7);
  EXPECT_EQ(node.ranks[6].numa_node, 5);
  EXPECT_EQ(FormatIndexList(node.ranks[0].cpus), "48-63,176-191");

  const BindingPlan complex = PlanBinding(machine, {.mode = Bind::kCoreComplex, .processes = 8});
  EXPECT_EQ(FormatIndexList(complex.ranks[0].cpus), "48-55,176-183");
  EXPECT_EQ(FormatIndexList(complex.ranks[1].cpus), "56-63,184-191");
  const BindingPlan socket = PlanBinding(machine, {.mode = Bind::kSocket, .processes = 8});
  EXPECT_EQ(FormatIndexList(socket.ranks[7].cpus), "64-127,192-255");
  EXPECT_THAT(socket.ranks[7].reason, IsEmpty());
}

TEST(MachineXmlTest, AGracesGpuMemoryIsNoPlaceForAProcess) {
  const Machine machine = Read(Grace());
  EXPECT_EQ(Summary(machine), "2 packages, 2 NUMA nodes, 144 cores, 4 GPUs");
  EXPECT_THAT(machine.memory_nodes, SizeIs(32));
  EXPECT_EQ(CpusWithoutReasons(PlanBinding(machine, {.processes = 4})),
            "0-71 | 0-71 | 72-143 | 72-143");
  const BindingPlan spread = PlanBinding(machine, {.mode = Bind::kInterleave, .processes = 4});
  EXPECT_THAT(spread.ranks[0].memory_nodes, ElementsAre(0, 1));
}

TEST(MachineXmlTest, WhatIsNoTopologyIsAnErrorThatNamesTheFile) {
  const XmlFile file("no topology");
  EXPECT_THAT(DiscoverXml(file.path()).error().message, HasSubstr(file.path()));
  EXPECT_FALSE(DiscoverXml("/nonexistent.xml").ok());
}

}  // namespace
}  // namespace lockstep::topology::machine_xml_test
