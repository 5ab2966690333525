#include "worker/agent/metrics/network_stats.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::agent {
namespace {

using topology::FixtureTree;

constexpr const char* kHeads =
    "Inter-|   Receive                                                |  Transmit\n"
    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop "
    "fifo colls carrier compressed\n";

std::string Line(const std::string& name, int received, int sent) {
  return name + ": " + std::to_string(received) + " 9 0 0 0 0 0 0 " + std::to_string(sent) +
         " 8 0 0 0 0 0 0\n";
}

TEST(NetworkStatsTest, AMachineThatTellsNothingHasNoLinks) {
  FixtureTree tree;
  const NetworkStats stats = ReadNetworkStats(tree.root());
  EXPECT_TRUE(stats.interfaces.empty() && stats.rdma_ports.empty());
}

TEST(NetworkStatsTest, CountsEachInterfaceButTheLoopback) {
  FixtureTree tree;
  tree.File("proc/net/dev", kHeads + Line("    lo", 5, 5) + Line("  eth0", 100, 20) +
                                "broken: 1 2\n" + Line("  net1", 7, 3));
  const NetworkStats stats = ReadNetworkStats(tree.root());
  ASSERT_EQ(stats.interfaces.size(), 2U);
  EXPECT_EQ(stats.interfaces[0].name, "eth0");
  EXPECT_EQ(stats.interfaces[0].received, 100U);
  EXPECT_EQ(stats.interfaces[0].sent, 20U);
  EXPECT_EQ(stats.received(), 107U);
  EXPECT_EQ(stats.sent(), 23U);
}

TEST(NetworkStatsTest, ANodesBridgesCountNothingTwice) {
  FixtureTree tree;
  tree.File("proc/net/dev", kHeads + Line("eth0", 100, 20) + Line("cni0", 90, 10))
      .File("sys/class/net/eth0/device/vendor", "0x15b3\n");
  EXPECT_EQ(ReadNetworkStats(tree.root()).received(), 100U);
}

TEST(NetworkStatsTest, PortsOfAdaptersCountInWordsAndCarryIpOverInfiniband) {
  FixtureTree tree;
  tree.File("proc/net/dev", kHeads + Line("eth0", 100, 20) + Line("ib0", 50, 50))
      .File("sys/class/net/ib0/type", "32\n")
      .File("sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "1000\n")
      .File("sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data", "500\n")
      .File("sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_data", "none\n");
  const NetworkStats stats = ReadNetworkStats(tree.root());
  ASSERT_EQ(stats.rdma_ports.size(), 1U);
  EXPECT_EQ(stats.rdma_ports[0].name, "mlx5_0/1");
  EXPECT_EQ(stats.rdma_ports[0].received, 4000U);
  EXPECT_EQ(stats.received(), 4100U);
  EXPECT_EQ(stats.sent(), 2020U);
}

TEST(NetworkStatsTest, ANodeWithAnInterfaceForEachPodIsBounded) {
  FixtureTree tree;
  std::string lines = kHeads;
  for (int i = 0; i < 500; ++i) lines += Line("veth" + std::to_string(i), 1, 1);
  tree.File("proc/net/dev", lines);
  EXPECT_EQ(ReadNetworkStats(tree.root()).interfaces.size(), kMaxLinks);
}

}  // namespace
}  // namespace lockstep::agent
