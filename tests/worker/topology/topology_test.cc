#include "worker/topology/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "tests/worker/topology/fixture_tree.h"
#include "tests/worker/topology/machine_builder.h"

namespace lockstep::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Two nodes of two cores of two threads, numbered as most firmware does: CPU n and n + 4 are
// siblings.
void AddTwoNodes(FixtureTree* tree) {
  tree->Core(0, {0, 4}).Core(0, {1, 5}).Core(1, {2, 6}).Core(1, {3, 7});
  tree->Node(0, {0, 1, 4, 5}, "10 21").Node(1, {2, 3, 6, 7}, "21 10");
}

std::vector<IndexList> CpusOfCores(const Machine& machine) {
  std::vector<IndexList> cpus;
  for (const Core& core : machine.cores) cpus.push_back(core.cpus);
  return cpus;
}

std::string SourceOf(const Machine& machine, const std::string& name) {
  for (const Fact& fact : machine.facts) {
    if (fact.name == name) return fact.source;
  }
  return "";
}

TEST(DiscoverTest, FindsNodesCoresAndDistances) {
  FixtureTree tree;
  AddTwoNodes(&tree);
  tree.Allowed("0-7", "0-1").Finish();
  const Result<Machine> machine = Discover(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  ASSERT_THAT(machine->numa_nodes, SizeIs(2));
  EXPECT_THAT(machine->numa_nodes[1].cpus, ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(machine->numa_nodes[1].distances, ElementsAre(21, 10));
  EXPECT_THAT(CpusOfCores(*machine), ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5),
                                                 ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_EQ(machine->cores[2].numa_node, 1);
  EXPECT_EQ(FormatIndexList(machine->allowed_cpus), "0-7");
  EXPECT_EQ(machine->cpu_quota, 0);
}

TEST(DiscoverTest, AContainersCpusetIsTakenFromProcStatus) {
  FixtureTree tree;
  AddTwoNodes(&tree);
  tree.Allowed("2,6", "1").Finish();
  const Result<Machine> machine = Discover(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_THAT(machine->allowed_cpus, ElementsAre(2, 6));
  EXPECT_THAT(machine->allowed_mems, ElementsAre(1));
  EXPECT_THAT(machine->numa_nodes, SizeIs(2)) << "closed nodes matter for distances";
  EXPECT_THAT(SourceOf(*machine, "allowed CPUs"), HasSubstr("/proc/self/status"));
}

TEST(DiscoverTest, WithoutProcStatusEverythingOnlineIsAllowed) {
  FixtureTree tree;
  AddTwoNodes(&tree);
  tree.Finish();
  const Result<Machine> machine = Discover(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(FormatIndexList(machine->allowed_cpus), "0-7");
  EXPECT_THAT(SourceOf(*machine, "allowed CPUs"), HasSubstr("hwloc"));
}

TEST(DiscoverTest, OfflineCpusAreNeverAllowed) {
  FixtureTree tree;
  tree.Core(0, {0}).Core(0, {1}).OfflineCpu(2).Node(0, {0, 1}, "10").Allowed("0-2", "0").Finish();
  const Result<Machine> machine = Discover(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_THAT(machine->allowed_cpus, ElementsAre(0, 1));
  EXPECT_THAT(machine->cores, SizeIs(2));
}

TEST(DiscoverTest, NodesWithoutCpusStandApart) {
  FixtureTree tree;
  tree.Core(0, {0}).Core(0, {1}).Node(0, {0, 1}, "10 80").Node(2, {}, "80 10");
  tree.Allowed("0-1", "0,2").Finish();
  const Result<Machine> machine = Discover(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  ASSERT_THAT(machine->numa_nodes, SizeIs(1));
  EXPECT_THAT(machine->numa_nodes[0].distances, ElementsAre(10));
  ASSERT_THAT(machine->memory_nodes, SizeIs(1));
  EXPECT_EQ(machine->memory_nodes[0].id, 2);
  EXPECT_EQ(machine->memory_nodes[0].memory_bytes, int64_t{8} << 30);
  EXPECT_THAT(machine->memory_nodes[0].distances, ElementsAre(80));
}

TEST(DiscoverTest, NoUsableCpuIsAnErrorThatSaysWhy) {
  FixtureTree tree;
  AddTwoNodes(&tree);
  tree.Allowed("16-17", "0").Finish();
  const Result<Machine> machine = Discover(tree.root());
  ASSERT_FALSE(machine.ok());
  EXPECT_THAT(machine.error().message, HasSubstr("0-7"));
  EXPECT_THAT(machine.error().message, HasSubstr("16-17"));
}

TEST(DiscoverTest, AForeignTopologyInTheEnvironmentIsNotBelievedAndNotLost) {
  FixtureTree tree;
  AddTwoNodes(&tree);
  tree.Allowed("0-7", "0-1").Finish();
  setenv("HWLOC_SYNTHETIC", "pack:4 core:4 pu:1", 1);
  const Result<Machine> machine = Discover(tree.root());
  EXPECT_STREQ(getenv("HWLOC_SYNTHETIC"), "pack:4 core:4 pu:1");
  EXPECT_EQ(getenv("HWLOC_FSROOT"), nullptr);
  unsetenv("HWLOC_SYNTHETIC");
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_THAT(machine->cores, SizeIs(4));
}

TEST(DiscoverTest, ThisMachineAllowsWhatTheKernelSays) {
  const Result<Machine> machine = Discover();
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  EXPECT_EQ(machine->allowed_cpus.size(), static_cast<size_t>(CPU_COUNT(&allowed)));
  for (const int cpu : machine->allowed_cpus) EXPECT_TRUE(CPU_ISSET(cpu, &allowed));
  EXPECT_FALSE(machine->numa_nodes.empty());
  EXPECT_FALSE(machine->cores.empty());
}

TEST(DiscoverGpusTest, OnlyNvidiaGpusWithADeviceFileCount) {
  FixtureTree tree;
  AddTwoNodes(&tree);
  tree.Pci("0000:9b:00.0", "0x10de", "0x030200", 1, 1).File("dev/nvidia1", "");
  tree.Pci("0000:17:00.0", "0x10de", "0x030200", 0, 0).File("dev/nvidia0", "");
  tree.Pci("0000:2a:00.0", "0x10de", "0x030000", 0, 2);                        // not given to us
  tree.Pci("0000:2b:00.0", "0x10de", "0x068000", 0);                           // a switch
  tree.Pci("0000:2c:00.0", "0x8086", "0x030000", 0).File("dev/nvidia2x", "");  // another vendor
  tree.Allowed("0-7", "0-1").Finish();
  const Result<Machine> machine = Discover(tree.root());
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  ASSERT_THAT(machine->gpus, SizeIs(2));
  EXPECT_EQ(machine->gpus[0].pci_address, "0000:17:00.0");
  EXPECT_EQ(machine->gpus[1].pci_address, "0000:9b:00.0");
  EXPECT_EQ(machine->gpus[1].numa_node, 1);
  EXPECT_EQ(machine->gpus[1].uuid, "GPU-1aaa-bb");
  EXPECT_THAT(SourceOf(*machine, "GPUs"), HasSubstr("3 on the PCI bus, 2 with a device file"));
}

TEST(DiscoverGpusTest, AGpuThatNothingHasUsedYetShowsNoUuid) {
  FixtureTree tree;
  tree.Pci("0000:17:00.0", "0x10de", "0x030200", 0).File("dev/nvidia0", "");
  tree.File("proc/driver/nvidia/gpus/0000:17:00.0/information",
            "GPU UUID: \t GPU-" + std::string(8, '?') + "-\nDevice Minor: \t 0\n");
  std::string source;
  const std::vector<Gpu> gpus = DiscoverGpus(tree.root(), &source);
  ASSERT_THAT(gpus, SizeIs(1));
  EXPECT_EQ(gpus[0].uuid, "");
}

TEST(DiscoverGpusTest, WithoutTheDriversFolderDeviceNumbersFollowPciOrder) {
  FixtureTree tree;
  tree.Pci("0000:17:00.0", "0x10de", "0x030200", -1);
  tree.Pci("0000:9b:00.0", "0x10de", "0x030200", -1).File("dev/nvidia1", "");
  std::string source;
  const std::vector<Gpu> gpus = DiscoverGpus(tree.root(), &source);
  ASSERT_THAT(gpus, SizeIs(1));
  EXPECT_EQ(gpus[0].pci_address, "0000:9b:00.0");
  EXPECT_EQ(gpus[0].numa_node, -1);
  EXPECT_THAT(source, HasSubstr("PCI order"));
}

TEST(DiscoverGpusTest, AmdsAreThoseThatKfdShowsWithTheirDeviceFileInItsOrder) {
  FixtureTree tree;
  const std::string nodes = "sys/class/kfd/kfd/topology/nodes/";
  tree.File("dev/kfd", "").File("dev/dri/renderD128", "").File("dev/dri/renderD130", "");
  tree.File(nodes + "0/properties", "cpu_cores_count 64\nsimd_count 0\n");
  tree.File(nodes + "1/properties",
            "simd_count 1216\nlocation_id 50432\ndomain 0\ndrm_render_minor 130\n"
            "unique_id 4660\n");
  tree.File(nodes + "2/properties",
            "simd_count 1216\nlocation_id 9728\ndomain 1\ndrm_render_minor 128\n");
  tree.File(nodes + "3/properties", "simd_count 1216\nlocation_id 1\ndrm_render_minor 129\n");
  tree.File("sys/devices/pci0000:c0/0000:c0:01.1/0000:c5:00.0/numa_node", "1\n");
  tree.Link("sys/bus/pci/devices/0000:c5:00.0", "sys/devices/pci0000:c0/0000:c0:01.1/0000:c5:00.0");
  std::string source;
  const std::vector<Gpu> gpus = DiscoverGpus(tree.root(), &source);
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].vendor, GpuVendor::kAmd);
  EXPECT_EQ(gpus[0].pci_address, "0000:c5:00.0");
  EXPECT_EQ(gpus[0].pci_path, "pci0000:c0/0000:c0:01.1/0000:c5:00.0");
  EXPECT_EQ(gpus[0].numa_node, 1);
  EXPECT_EQ(gpus[0].minor, 130);
  EXPECT_EQ(gpus[0].uuid, "GPU-0000000000001234");
  EXPECT_EQ(gpus[1].pci_address, "0001:26:00.0");
  EXPECT_EQ(gpus[1].numa_node, -1);
  EXPECT_THAT(source, HasSubstr("3 of AMD, 2 with a device file"));
}

TEST(DiscoverNicsTest, RdmaDevicesTakeTheirInterfacesAlongAndVirtualOnesAreNone) {
  FixtureTree tree;
  const std::string card = "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0";
  tree.File(card + "/numa_node", "1\n").File(card + "/net/ib0/operstate", "up\n");
  tree.Link("sys/class/infiniband/mlx5_0/device", card);
  tree.File("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
  tree.File("sys/class/infiniband_verbs/uverbs3/ibdev", "mlx5_0\n");
  tree.File("dev/infiniband/uverbs3", "");
  tree.Link("sys/class/net/ib0/device", card).File("sys/class/net/ib0/operstate", "up\n");
  tree.Link("sys/class/net/eth0/device", "sys/devices/pci0000:00/0000:00:03.0/virtio0");
  tree.File("sys/class/net/eth0/operstate", "down\n");
  tree.File("sys/class/net/lo/operstate", "unknown\n");
  const std::vector<Nic> nics = DiscoverNics(tree.root());
  ASSERT_EQ(nics.size(), 2u);
  EXPECT_EQ(nics[0].name, "eth0");
  EXPECT_FALSE(nics[0].up);
  EXPECT_EQ(nics[0].pci_address, "0000:00:03.0");
  EXPECT_EQ(nics[1].name, "mlx5_0");
  EXPECT_EQ(nics[1].interface, "ib0");
  EXPECT_TRUE(nics[1].rdma && nics[1].up);
  EXPECT_EQ(nics[1].numa_node, 1);
  EXPECT_EQ(nics[1].pci_path, "pci0000:10/0000:10:01.0/0000:11:00.0");
}

// sysfs shows a container all devices of the host.
TEST(DiscoverNicsTest, AnRdmaDeviceWithoutADeviceFileIsOnlyItsInterface) {
  FixtureTree tree;
  for (const std::string number : {"0", "1"}) {
    const std::string card = "sys/devices/pci0000:10/0000:1" + number + ":00.0";
    std::string interface = card + "/net/ib";
    interface += number;
    tree.File(interface + "/operstate", "up\n");
    tree.Link("sys/class/infiniband/mlx5_" + number + "/device", card);
    tree.File("sys/class/infiniband_verbs/uverbs" + number + "/ibdev", "mlx5_" + number + "\n");
  }
  tree.Link("sys/class/net/ib0/device", "sys/devices/pci0000:10/0000:10:00.0");
  tree.File("dev/infiniband/uverbs1", "");
  const std::vector<Nic> nics = DiscoverNics(tree.root());
  ASSERT_EQ(nics.size(), 2u);
  EXPECT_EQ(nics[0].name, "ib0");
  EXPECT_FALSE(nics[0].rdma);
  EXPECT_EQ(nics[1].name, "mlx5_1");
}

TEST(ActiveRdmaDevicesTest, AreThoseOfTheHostWithAnActivePortWhetherOrNotTheyCanBeOpened) {
  FixtureTree tree;
  for (const std::string name : {"mlx5_0", "mlx5_1", "mlx5_2", "rdmap0s6"}) {
    tree.File("sys/class/infiniband/" + name + "/ports/1/state",
              name == "mlx5_2" ? "1: DOWN\n" : "4: ACTIVE\n");
  }
  tree.File("sys/class/infiniband/rdmap0s6/device/vendor", "0x1d0f\n");
  tree.File("sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
  tree.File("dev/infiniband/uverbs1", "");
  const std::vector<ActiveRdma> devices = ActiveRdmaDevices(tree.root());
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[0].name, "mlx5_0");
  EXPECT_FALSE(devices[0].openable || devices[0].efa);
  EXPECT_EQ(devices[1].name, "mlx5_1");
  EXPECT_TRUE(devices[1].openable);
  EXPECT_TRUE(devices[2].efa);
  EXPECT_TRUE(ActiveRdmaDevices(FixtureTree().root()).empty());
}

// Devices 0, 1 and 2, and eth3.
std::vector<Nic> FourNics() {
  Machine machine = MakeMachine().Nic("mlx5_0", 0).Nic("mlx5_1", 0).Nic("mlx5_2", 1).Nic("eth3", 1);
  machine.nics[3].rdma = false;
  for (size_t i = 0; i < 4; ++i) machine.nics[i].interface = "eth" + std::to_string(i);
  return machine.nics;
}

std::string RdmaDevicesFor(const std::vector<std::vector<std::string>>& near) {
  return RdmaDevices(FourNics(), NearNics(FourNics(), near));
}

TEST(NearNicsTest, AllProcessesOfAMachineAreToldOfTheDevicesNearAnyOfThem) {
  EXPECT_EQ(RdmaDevicesFor({{"mlx5_0"}, {"mlx5_1"}}), "=mlx5_0,mlx5_1");
  EXPECT_EQ(RdmaDevicesFor({{"mlx5_1"}, {"mlx5_1"}}), "=mlx5_1");
}

TEST(NearNicsTest, NothingIsSaidOfDevicesWhereNoneIsLeftOutOrAProcesssAreUnknown) {
  EXPECT_EQ(RdmaDevicesFor({{"mlx5_0"}, {"mlx5_1"}, {"mlx5_2"}}), "");
  EXPECT_EQ(RdmaDevicesFor({{"mlx5_0"}, {}}), "");
  std::vector<Nic> down = FourNics();
  down[2].up = false;
  EXPECT_EQ(RdmaDevices(down, NearNics(down, {{"mlx5_0"}, {"mlx5_1"}})), "");
}

TEST(NearNicsTest, AnInterfaceIsNamedWhereItIsTheOnlyNearOneOfThose) {
  const std::vector<Nic> nics = FourNics();
  const std::vector<std::string> interfaces = {"eth0", "eth2", "eth3"};
  EXPECT_EQ(OnlyInterface(interfaces, NearNics(nics, {{"mlx5_0"}, {"mlx5_1"}})), "eth0");
  EXPECT_EQ(OnlyInterface(interfaces, NearNics(nics, {{"mlx5_0"}, {"mlx5_2"}})), "");
  EXPECT_EQ(OnlyInterface(interfaces, NearNics(nics, {{"mlx5_1"}})), "");
}

}  // namespace
}  // namespace lockstep::topology
