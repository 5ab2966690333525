#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/worker/trainer/cuda/kernels/cases.h"

namespace lockstep::trainer::gpu {
namespace {

constexpr unsigned kSeeds = 5;

std::vector<Case> AllCases() {
  std::vector<Case> all;
  for (const auto& cases : {AttentionCases(), ElementCases(), NormCases(), StepCases()})
    all.insert(all.end(), cases.begin(), cases.end());
  return all;
}

// The largest difference from what is expected, relative to the largest number expected.
double ErrorOf(const Output& output) {
  double difference = 0;
  double largest = 0;
  if (output.values.size() != output.expected.size()) return INFINITY;
  for (size_t i = 0; i < output.values.size(); ++i) {
    const double here = std::abs(output.values[i] - output.expected[i]);
    if (!(here <= difference)) difference = std::isnan(here) ? INFINITY : here;
    largest = std::max(largest, std::abs(output.expected[i]));
  }
  return largest == 0 ? difference : difference / largest;
}

// What is wrong with it, `first` being what seed 0 gave; or nothing.
std::string Judge(const Outcome& outcome, const Outcome& first) {
  if (!outcome.wrong.empty()) return outcome.wrong;
  for (size_t i = 0; i < outcome.outputs.size(); ++i) {
    const Output& output = outcome.outputs[i];
    const double error = ErrorOf(output);
    if (!(error <= output.tolerance))
      return output.name + " is off by " + std::to_string(error * 1e6) + "e-6";
    const std::vector<double>& right = first.outputs[i].values;
    if (std::memcmp(output.values.data(), right.data(), right.size() * sizeof(double)) != 0)
      return output.name + " has other bits";
  }
  return {};
}

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
  for (const auto& entry : std::filesystem::directory_iterator("worker/trainer/cuda")) {
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
