#include "worker/trainer/cuda/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "worker/trainer/cuda/device/mlp_kernels.h"

namespace lockstep::trainer {
namespace {

using collectives::Rank;
using collectives::RunRanks;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr DeviceImage kGarbage{"machine code", 80, "no image"};

// Loads these images and runs a kernel of them.
void ExpectToRun(Rank& rank, std::span<const DeviceImage> images) {
  Result<Kernels> kernels = Kernels::Load(rank.device(), images);
  ASSERT_TRUE(kernels.ok()) << kernels.error().message;
  const collectives::DeviceMemory p = rank.ToDevice<float>({1, 2, 3});
  const collectives::DeviceMemory g = rank.ToDevice<float>({2, 2, 2});
  Rank::Must(kernels->Launch(
      gpu::Descend{static_cast<float*>(p.data()), static_cast<const float*>(g.data()), 0.5F, 3}));
  Rank::Must(kernels->Synchronize());
  EXPECT_EQ(rank.ToHost<float>(p), (std::vector<float>{0, 1, 2}));
}

Error LoadFailure(Rank& rank) {
  const Result<Kernels> kernels = Kernels::Load(rank.device());
  EXPECT_FALSE(kernels.ok());
  return kernels.ok() ? Error::Internal("") : kernels.error();
}

TEST(Kernels, EveryBuildHasThoseOfEveryGpuFromAmpereOn) {
  for (const char* capability : {"80", "86", "90", "100"}) {
    RunRanks(1, [&](Rank& rank) {
      Rank::Set("FAKE_CAPABILITY", capability);
      ExpectToRun(rank, DeviceImages());
    });
  }
}

TEST(Kernels, AreTheFirstThatTheDriverLoads) {
  RunRanks(1, [](Rank& rank) {
    std::vector<DeviceImage> images = {kGarbage};
    images.insert(images.end(), DeviceImages().begin(), DeviceImages().end());
    ExpectToRun(rank, images);
  });
}

TEST(Kernels, OfNewerGpusAreNotTried) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_CAPABILITY", "86");
    const std::vector<DeviceImage> images = {{"PTX for sm_90", 90, "no image"}};
    const Result<Kernels> kernels = Kernels::Load(rank.device(), images);
    ASSERT_FALSE(kernels.ok());
    EXPECT_THAT(kernels.error().message, HasSubstr("has compute capability 8.6"));
  });
}

TEST(Kernels, WantAGpuThatIsNewEnough) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_CAPABILITY", "75");
    const Error failure = LoadFailure(rank);
    EXPECT_EQ(failure.kind, ErrorKind::kNotFound);
    EXPECT_THAT(failure.message,
                HasSubstr("has compute capability 7.5, and the kernels need 8.0 (Ampere)"));
  });
}

TEST(Kernels, AreNotMissingWhereTheGpuIsAtFault) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_IMAGE", "46");
    EXPECT_EQ(LoadFailure(rank).kind, ErrorKind::kBroken);
  });
}

TEST(Kernels, WaitForTheMemoryOfAProcessThatHasJustEnded) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_FULL", "module:2");
    const Result<Kernels> kernels = Kernels::Load(rank.device());
    EXPECT_TRUE(kernels.ok()) << kernels.error().message;
  });
}

// As no kernel may be launched, on any GPU.
struct TooManyRows : gpu::TreeAdd {
  static gpu::LaunchShape shape() { return {.blocks_y = 65536, .threads = 256}; }
};
struct TooMuchShared : gpu::TreeAdd {
  static gpu::LaunchShape shape() { return {.threads = 256, .shared_bytes = 48 * 1024 + 16}; }
};

TEST(Kernels, ThatTheGpuCannotStartAreAnErrorOfTheLaunch) {
  RunRanks(1, [](Rank& rank) {
    Result<Kernels> kernels = Kernels::Load(rank.device());
    ASSERT_TRUE(kernels.ok()) << kernels.error().message;
    for (const Status& launched :
         {kernels->Launch(TooManyRows{}), kernels->Launch(TooMuchShared{})}) {
      ASSERT_FALSE(launched.ok());
      EXPECT_THAT(launched.error().message,
                  HasSubstr("cuLaunchKernel of tree_add: CUDA_ERROR_INVALID_VALUE"));
    }
  });
}

TEST(Kernels, WantADriverThatIsNewEnough) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_IMAGE", "222");  // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    Rank::Set("FAKE_DRIVER", "11080");
    const Error failure = LoadFailure(rank);
    EXPECT_EQ(failure.kind, ErrorKind::kNotFound);
    EXPECT_THAT(failure.message, AllOf(HasSubstr("PTX for sm_80: cuModuleLoadData"),
                                       HasSubstr("it serves CUDA 11.8, and their PTX needs 12.0"),
                                       HasSubstr("update the driver")));
  });
}

}  // namespace
}  // namespace lockstep::trainer
