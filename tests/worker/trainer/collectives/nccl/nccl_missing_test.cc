// Machines that lack something: the message names it and says what to do, on every rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "worker/trainer/collectives/nccl/nccl_transport.h"

namespace lockstep::collectives {
namespace {

using ::testing::HasSubstr;

void ExpectRefusal(Rank& rank, ErrorKind kind, const std::vector<std::string>& words) {
  const auto made = rank.TryConnect();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, kind) << made.error().message;
  for (const std::string& word : words) EXPECT_THAT(made.error().message, HasSubstr(word));
}

TEST(NcclMissing, NoLibnccl) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_NCCL_LIBRARY", "/nowhere/libnccl.so.2");
    ExpectRefusal(
        rank, ErrorKind::kNotFound,
        {"/nowhere/libnccl.so.2", "install NCCL 2.18", "LD_LIBRARY_PATH (in a job: spec.env)"});
  });
}

TEST(NcclMissing, NcclTooOld) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_NCCL", "21403");
    ExpectRefusal(rank, ErrorKind::kNotFound, {"NCCL 2.14.3, too old", "install NCCL 2.18"});
  });
}

TEST(NcclMissing, NoDriver) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
    ExpectRefusal(rank, ErrorKind::kNotFound, {"no NVIDIA driver", "nvidia.com/gpu"});
  });
}

TEST(NcclMissing, AFileThatIsNoDriver) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_CUDA_LIBRARY", "libm.so.6");
    ExpectRefusal(rank, ErrorKind::kNotFound, {"libm.so.6 has no function cuInit"});
  });
}

TEST(NcclMissing, NoGpu) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_GPUS", "0");
    ExpectRefusal(rank, ErrorKind::kNotFound, {"shows no GPU"});
  });
}

TEST(NcclMissing, ADriverThatNoNcclServes) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_DRIVER", "10020");
    ExpectRefusal(rank, ErrorKind::kNotFound, {"serves CUDA 10.2", "update the driver"});
  });
}

TEST(NcclMissing, ADriverThatIsTooOldForThisNccl) {
  RunRanks(2, [](Rank& rank) {
    Rank::Set("FAKE_DRIVER", "12040");
    Rank::Set("FAKE_NCCL_CUDA", "13000");
    ExpectRefusal(rank, ErrorKind::kNotFound, {"serves CUDA 12.4", "an NCCL built for CUDA 12"});
  });
}

TEST(NcclMissing, FewerGpusThanProcessesIsSaidOnEveryRank) {
  RunRanks(4, [](Rank& rank) {
    Rank::Set("FAKE_GPUS", "3");
    ExpectRefusal(rank, ErrorKind::kNotFound,
                  {"rank 3: GPU 3 is needed, but this process sees 3", "processesPerMachine"});
  });
}

TEST(NcclMissing, RoomInSharedMemoryIsSaidOnEveryRank) {
  RunRanks(3, [](Rank& rank) {
    if (rank.rank() == 1) Rank::Set("FAKE_INIT", "shm");
    ExpectRefusal(rank, ErrorKind::kUnavailable,
                  {"rank 1: ncclCommInitRankConfig", "No space left on device",
                   "mount a larger /dev/shm (sharedMemory: 1Gi)"});
  });
}

TEST(NcclMissing, AnInterfaceOfTheNameThatNcclWasGivenIsSaidOnEveryRank) {
  for (const int wrong : {0, 1}) {
    RunRanks(2, [wrong](Rank& rank) {
      Rank::Set("NCCL_SOCKET_IFNAME", "eth7");
      if (rank.rank() == wrong) Rank::Set("FAKE_INIT", "interface");
      ExpectRefusal(rank, ErrorKind::kInvalid,
                    {"rank " + std::to_string(wrong),
                     "NCCL_SOCKET_IFNAME names no interface of this machine"});
    });
  }
}

TEST(NcclMissing, ANcclThatDiffersIsSaidOnEveryRank) {
  RunRanks(3, [](Rank& rank) {
    if (rank.rank() == 2) Rank::Set("FAKE_NCCL", "22703");
    ExpectRefusal(rank, ErrorKind::kInvalid, {"rank 2 has NCCL 2.27.3 and rank 0 has 2.28.9"});
  });
}

}  // namespace
}  // namespace lockstep::collectives
