#include "worker/trainer/report/gpu_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/worker/trainer/cuda/fake_gpu.h"

namespace lockstep::trainer::gpu_figures_test {
namespace {

using collectives::Rank;
using collectives::RunRanks;
using ::testing::HasSubstr;

const Time kNow = Time(seconds(1000));

GpuFigures WithXids(Rank& rank, const std::string& xids) {
  Rank::Set("LOCKSTEP_NVML_LIBRARY", LOCKSTEP_FAKES "/libnvidia-ml.so.1");
  Rank::Set("FAKE_NVML", "xid");
  Rank::Set("FAKE_XIDS", xids);
  return GpuFigures(*rank.device(), core::Precision::kBf16);
}

TEST(GpuFigures, AFatalXidMakesTheMachineTheCause) {
  for (const char* xid : {"48", "79", "94", "119", "31,95,43"}) {
    RunRanks(1, [xid](Rank& rank) {
      GpuFigures figures = WithXids(rank, xid);
      for (const Error& error : {Error::Internal("cuLaunchKernel"), Error::Unavailable("a peer")}) {
        const Error judged = figures.Judge(error, kNow);
        EXPECT_EQ(judged.kind, ErrorKind::kBroken) << xid;
        EXPECT_THAT(judged.message, HasSubstr(error.message + "; GPU 0000:f0:00.0 reported Xid "));
        EXPECT_THAT(judged.message, HasSubstr(", so the machine must be replaced"));
      }
    });
  }
}

TEST(GpuFigures, AnXidThatMayBeTheProgramsLeavesTheErrorAsItIs) {
  RunRanks(1, [](Rank& rank) {
    GpuFigures figures = WithXids(rank, "31,43");
    EXPECT_EQ(figures.Judge(Error::Internal("cuLaunchKernel"), kNow).kind, ErrorKind::kInternal);
  });
}

TEST(GpuFigures, AFatalXidIsNoCauseOfAMistakeInTheJobOrOfALaterFailure) {
  RunRanks(1, [](Rank& rank) {
    GpuFigures figures = WithXids(rank, "94");
    Numbers numbers;
    figures.AddTo(numbers, kNow);
    EXPECT_EQ(figures.Judge(Error::Invalid("the data"), kNow).kind, ErrorKind::kInvalid);
    const Error error = Error::Unavailable("a peer");
    EXPECT_EQ(figures.Judge(error, kNow + seconds(59)).kind, ErrorKind::kBroken);
    EXPECT_EQ(figures.Judge(error, kNow + seconds(61)).kind, ErrorKind::kUnavailable);
  });
}

}  // namespace
}  // namespace lockstep::trainer::gpu_figures_test
