#include "worker/trainer/collectives/nccl/nccl_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"

namespace lockstep::collectives::nccl_log_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr const char* kInfiniBand =
    R"(gpu-7:92:92 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.7<0>
gpu-7:92:92 [0] NCCL INFO Assigned NET plugin IB to comm
gpu-7:92:92 [0] NCCL INFO Using network IB
gpu-7:92:101 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [receive] via NET/IB/0/GDRDMA
gpu-7:92:101 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
)";
constexpr const char* kTcp = R"(gpu-7:92:92 [0] NCCL INFO NET/IB : No device found.
gpu-7:92:92 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.7<0>
gpu-7:92:92 [0] NCCL INFO Using network Socket
gpu-7:92:101 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [receive] via NET/Socket/0
)";

TEST(NcclLog, NamesTheNetworkAndWhetherCardsReadTheGpu) {
  const MachineNetwork network = NetworkInLog(kInfiniBand);
  EXPECT_EQ(network.name, "IB");
  EXPECT_EQ(network.direct, true);
  EXPECT_EQ(network.why_tcp, "");
  EXPECT_EQ(ToString(network), ", between machines by IB with GPUDirect RDMA");
}

TEST(NcclLog, SaysWhyTcpIsUsed) {
  const MachineNetwork network = NetworkInLog(kTcp);
  EXPECT_TRUE(network.by_tcp());
  EXPECT_EQ(network.direct, false);
  EXPECT_EQ(network.why_tcp, "NET/IB : No device found.");
  EXPECT_EQ(ToString(network), ", between machines by TCP");
}

TEST(NcclLog, TellsOfTheNewestCommunicator) {
  const MachineNetwork network =
      NetworkInLog(std::string(kInfiniBand) + "x [0] NCCL INFO Using network AWS Libfabric\n");
  EXPECT_EQ(network.name, "AWS Libfabric");
  EXPECT_FALSE(network.direct.has_value()) << "no rank of another machine is its neighbour";
  EXPECT_EQ(ToString(network), ", between machines by AWS Libfabric");
  EXPECT_EQ(NetworkInLog("x [0] NCCL INFO Using network").name, "");
  EXPECT_EQ(NetworkInLog("").name, "");
}

// As a rank that nobody asked for a log.
void ForgetLog() {
  unsetenv("NCCL_DEBUG");
  unsetenv("NCCL_DEBUG_FILE");
  Rank::Set("HOME", "/nowhere");
}

TEST(NcclLog, IsKeptForACommunicatorOfSeveralMachines) {
  RunRanks(2, [](Rank& rank) {
    ForgetLog();
    Rank::Set("FAKE_NET", rank.rank() == 0 ? "IB" : "Socket");
    KeepNcclLog();
    EXPECT_EQ(NcclLogText(), "");
    const std::string told = rank.Connect()->Describe();
    EXPECT_THAT(NcclLogText(), HasSubstr("Using network"));
    EXPECT_THAT(told, EndsWith(rank.rank() == 0 ? ", between machines by IB without GPUDirect RDMA"
                                                : ", between machines by TCP"));
  });
}

TEST(NcclLog, OfOneMachineTellsNoNetwork) {
  RunRanks(2, [](Rank& rank) {
    ForgetLog();
    KeepNcclLog();
    Options options = rank.MakeOptions();
    options.local_world = 2;
    EXPECT_EQ(rank.ConnectWith(options)->network().name, "");
  });
}

TEST(NcclLog, IsLeftToTheUserWhoAskedForOne) {
  const std::string home = ::testing::TempDir();
  std::ofstream(home + "/.nccl.conf") << "NCCL_DEBUG=WARN\n";
  RunRanks(1, [&](Rank&) {
    ForgetLog();
    Rank::Set("NCCL_DEBUG", "WARN");
    KeepNcclLog();
    EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "WARN");
    EXPECT_EQ(std::getenv("NCCL_DEBUG_FILE"), nullptr);
    ForgetLog();
    Rank::Set("HOME", home);
    KeepNcclLog();
    EXPECT_EQ(std::getenv("NCCL_DEBUG"), nullptr);
    ForgetLog();
    KeepNcclLog();
    EXPECT_STREQ(std::getenv("NCCL_DEBUG"), "INFO");
  });
}

}  // namespace
}  // namespace lockstep::collectives::nccl_log_test
