// The PTX that a build ships, run on the host: inline assembly, the compiler's own instructions,
// and accesses that must be aligned.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/fakes/ptx/ptx.h"
#include "tests/worker/trainer/cuda/device/cases.h"

namespace lockstep::ptx {
namespace {

using trainer::gpu::AllCases;
using trainer::gpu::Case;
using trainer::gpu::Judge;
using trainer::gpu::Outcome;

// In order, the last first with copies that land at once, and at random.
constexpr unsigned kSeeds = 3;

std::string WrongOf(const Case& a_case, unsigned seeds) {
  const Outcome first = a_case.run({});
  std::string wrong;
  for (unsigned seed = 0; seed < seeds && wrong.empty(); ++seed) {
    wrong = Judge(a_case.run({.seed = seed}), first);
  }
  return wrong;
}

class PtxKernels : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, PtxKernels, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(PtxKernels, AreRightToTheSameBitsInEveryOrderOfTheirThreads) {
  EXPECT_EQ(WrongOf(GetParam(), kSeeds), "");
}

class PlantedFaults : public ::testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(All, PlantedFaults,
                         ::testing::Values(Fault::kHalvesSwapped, Fault::kRowsSwapped,
                                           Fault::kSumsSwapped, Fault::kNotTransposed,
                                           Fault::kOneGroupMore, Fault::kFactorIsSummand,
                                           Fault::kMaxIsMin, Fault::kGenericAsShared,
                                           Fault::kNoCommit, Fault::kNoBarrier));

TEST_P(PlantedFaults, AreSeenByACase) {
  fault = GetParam();
  bool seen = false;
  for (const Case& each : AllCases()) {
    if (seen) break;
    seen = !WrongOf(each, kSeeds).empty();
  }
  fault = Fault::kNone;
  EXPECT_TRUE(seen);
}

TEST(PtxKernels, OfFewerThreadsThanAreLaunchedAreSeen) {
  trainer::gpu::HostKernel half = *emulator::Find("gelu_bf16");
  half.threads /= 2;
  const trainer::gpu::LaunchShape shape{.threads = 2 * half.threads};
  EXPECT_NE(emulator::Run(half, nullptr, shape, {}), "");
}

std::string BehindTheTarget(const std::string& arch) {
  std::ifstream file(LOCKSTEP_PTX "_" + arch + ".ptx");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t target = text.find(".target sm_" + arch);
  return target == std::string::npos ? "" : text.substr(text.find('\n', target));
}

TEST(PtxImages, DifferInTheirTargetAlone) {
  EXPECT_FALSE(BehindTheTarget("90").empty());
  EXPECT_EQ(BehindTheTarget("80"), BehindTheTarget("90"));
}

}  // namespace
}  // namespace lockstep::ptx
