// Machines that lack something: the message names it and says what to do, on every rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/collectives/nccl/rank_processes.h"
#include "worker/collectives/nccl_transport.h"

namespace lockstep::collectives {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = ::testing::Matcher<std::string>;

void ExpectRefusal(Rank& rank, ErrorKind kind, const Words& words) {
  const auto made = rank.TryConnect();
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, kind) << made.error().message;
  EXPECT_THAT(made.error().message, words);
}

TEST(NcclMissing, NoLibnccl) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_NCCL_LIBRARY", "/nowhere/libnccl.so.2");
    ExpectRefusal(rank, ErrorKind::kNotFound,
                  AllOf(HasSubstr("/nowhere/libnccl.so.2"), HasSubstr("install NCCL 2.18")));
  });
}

TEST(NcclMissing, NcclTooOld) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_STAND_IN_NCCL", "21403");
    ExpectRefusal(rank, ErrorKind::kNotFound,
                  AllOf(HasSubstr("NCCL 2.14.3, too old"), HasSubstr("install NCCL 2.18")));
  });
}

TEST(NcclMissing, NoDriver) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_CUDA_LIBRARY", "/nowhere/libcuda.so.1");
    ExpectRefusal(rank, ErrorKind::kNotFound,
                  AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("nvidia.com/gpu")));
  });
}

TEST(NcclMissing, AFileThatIsNoDriver) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_CUDA_LIBRARY", "libm.so.6");
    ExpectRefusal(rank, ErrorKind::kNotFound, HasSubstr("libm.so.6 has no function cuInit"));
  });
}

TEST(NcclMissing, NoGpu) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_STAND_IN_GPUS", "0");
    ExpectRefusal(rank, ErrorKind::kNotFound, HasSubstr("shows no GPU"));
  });
}

TEST(NcclMissing, ADriverThatNoNcclServes) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("LOCKSTEP_STAND_IN_DRIVER", "10020");
    ExpectRefusal(rank, ErrorKind::kNotFound,
                  AllOf(HasSubstr("serves CUDA 10.2"), HasSubstr("update the driver")));
  });
}

TEST(NcclMissing, ADriverThatIsTooOldForThisNccl) {
  RunRanks(2, [](Rank& rank) {
    Rank::Set("LOCKSTEP_STAND_IN_DRIVER", "12040");
    Rank::Set("LOCKSTEP_STAND_IN_NCCL_CUDA", "13000");
    ExpectRefusal(rank, ErrorKind::kNotFound,
                  AllOf(HasSubstr("serves CUDA 12.4"), HasSubstr("an NCCL built for CUDA 12")));
  });
}

TEST(NcclMissing, FewerGpusThanProcessesIsSaidOnEveryRank) {
  RunRanks(4, [](Rank& rank) {
    Rank::Set("LOCKSTEP_STAND_IN_GPUS", "3");
    ExpectRefusal(rank, ErrorKind::kNotFound,
                  AllOf(HasSubstr("rank 3: GPU 3 is wanted, and this process sees 3"),
                        HasSubstr("processesPerMachine")));
  });
}

TEST(NcclMissing, ANcclThatDiffersIsSaidOnEveryRank) {
  RunRanks(3, [](Rank& rank) {
    if (rank.rank() == 2) Rank::Set("LOCKSTEP_STAND_IN_NCCL", "22703");
    ExpectRefusal(rank, ErrorKind::kInvalid,
                  HasSubstr("rank 2 has NCCL 2.27.3 and rank 0 has 2.28.9"));
  });
}

}  // namespace
}  // namespace lockstep::collectives
