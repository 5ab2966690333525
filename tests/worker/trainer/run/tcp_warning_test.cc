#include "worker/trainer/run/tcp_warning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::trainer::tcp_warning_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using topology::ActiveRdma;

const collectives::MachineNetwork kTcp = {
    .name = "Socket", .direct = false, .why_tcp = "NET/IB : No device found."};
const std::vector<ActiveRdma> kOpenable = {{.name = "mlx5_0", .openable = true},
                                           {.name = "mlx5_1", .openable = false}};

TEST(TcpWarning, NamesTheDevicesAndQuotesNccl) {
  EXPECT_EQ(TcpWarning(kTcp, kOpenable, {}),
            "NCCL moves data between machines by TCP, but this machine has RDMA (mlx5_0, mlx5_1): "
            "check that the image has libibverbs.so.1 (rdma-core); NCCL says: NET/IB : No device "
            "found.");
}

TEST(TcpWarning, SaysWhatToAskForIfTheContainerHasNoDevice) {
  const std::string warning = TcpWarning(kTcp, {{.name = "mlx5_0", .openable = false}}, {});
  EXPECT_THAT(warning, AllOf(HasSubstr("resourcesPerMachine, as in rdma/hca: 1"),
                             Not(HasSubstr("libibverbs"))));
}

TEST(TcpWarning, NamesThePluginOfEfa) {
  const std::vector<ActiveRdma> efa = {{.name = "rdmap0s6", .openable = true, .efa = true}};
  EXPECT_THAT(TcpWarning(kTcp, efa, {}), HasSubstr("aws-ofi-nccl"));
}

TEST(TcpWarning, NamesTheJobsChoiceOfDevices) {
  EXPECT_THAT(TcpWarning(kTcp, kOpenable, {.ib_hca = "=mlx5_9"}),
              HasSubstr("check that NCCL_IB_HCA==mlx5_9 names one of them"));
}

TEST(TcpWarning, IsNoneWithoutRdmaOrWithAnotherNetworkOrOnRequest) {
  EXPECT_EQ(TcpWarning(kTcp, {}, {}), "");
  EXPECT_EQ(TcpWarning({.name = "IB"}, kOpenable, {}), "");
  EXPECT_EQ(TcpWarning({}, kOpenable, {}), "") << "one machine, or no log";
  EXPECT_EQ(TcpWarning(kTcp, kOpenable, {.net = "Socket"}), "");
  EXPECT_EQ(TcpWarning(kTcp, kOpenable, {.ib_disable = "1"}), "");
  EXPECT_THAT(TcpWarning(kTcp, kOpenable, {.ib_disable = "0"}), StartsWith("NCCL moves"));
}

}  // namespace
}  // namespace lockstep::trainer::tcp_warning_test
