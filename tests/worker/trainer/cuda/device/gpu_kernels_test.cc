#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/worker/trainer/cuda/device/cases.h"

namespace lockstep::trainer::gpu {
namespace {

constexpr unsigned kSeeds = 5;

class KernelTest : public ::testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(All, KernelTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

TEST_P(KernelTest, IsRightToTheSameBitsInEveryOrderOfItsThreads) {
  const Outcome first = GetParam().run({});
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const Outcome outcome = GetParam().run({.seed = seed});
    EXPECT_EQ(Judge(outcome, first), "") << "seed " << seed;
  }
  for (const Output& output : first.outputs)
    RecordProperty(output.name, std::to_string(ErrorOf(output) * 1e9) + "e-9");
}

// Calls that wait for other threads or for copies, in the kernels' files.
size_t BarriersInTheSources() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("worker/trainer/cuda")) {
    if (entry.path().extension() != ".cu") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);)
      count += line.find("SyncBlock();") != std::string::npos ||
               line.find("WaitForCopies<") != std::string::npos;
  }
  return count;
}

// Each barrier and each wait is left out in turn; one that nobody misses is not needed, or not
// tested.
TEST(KernelBarriers, AreMissed) {
  std::map<emulator::Site, bool> missed;
  for (const Case& each : AllCases()) {
    std::vector<emulator::Site> sites;
    const Outcome first = each.run({.sites = &sites});
    for (const emulator::Site& site : sites) {
      bool& found = missed[site];
      for (unsigned seed = 0; seed < kSeeds && !found; ++seed)
        found = !Judge(each.run({.seed = seed, .without = &site}), first).empty();
    }
  }
  EXPECT_EQ(missed.size(), BarriersInTheSources());
  for (const auto& [site, found] : missed)
    EXPECT_TRUE(found) << site.file << ":" << site.line << ":" << site.column;
}

}  // namespace
}  // namespace lockstep::trainer::gpu
