#include "worker/agent/ranks/activity_meter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::agent {
namespace {

class ActivityMeterTest : public testing::Test {
 protected:
  // `children`: the CPU time of children that it has waited for.
  void Process(pid_t pid, double cpu_seconds, int64_t bytes = 0, double children = 0) {
    const auto ticks = [](double time) {
      return std::to_string(static_cast<int64_t>(time * static_cast<double>(sysconf(_SC_CLK_TCK))));
    };
    const std::string folder = "proc/" + std::to_string(pid);
    tree_.File(folder + "/stat", std::to_string(pid) + " (python) S 1 1 1 0 -1 0 0 0 0 0 " +
                                     ticks(cpu_seconds) + " 0 " + ticks(children) +
                                     " 0 20 0 3 0 98765 104857600 1 0 1 1 0 0 0 0\n");
    tree_.File(folder + "/io", "rchar: " + std::to_string(bytes) +
                                   "\nwchar: 0\nsyscr: 1\nsyscw: 1\nread_bytes: 0\n");
  }

  topology::FixtureTree tree_;
  ActivityMeter meter_{tree_.root()};
};

TEST_F(ActivityMeterTest, NoRankIsKnownAtTheFirstLook) {
  Process(42, 100);
  EXPECT_EQ(meter_.Measure(seconds(10), {{4, {42}}}),
            (core::RankActivity{.ranks = 1, .working = 0, .unknown = 1}));
}

TEST_F(ActivityMeterTest, ARankWorksThatComputes) {
  Process(42, 100);
  Process(43, 100);
  static_cast<void>(meter_.Measure(seconds(10), {{4, {42}}, {5, {43}}}));
  Process(43, 100.1);  // 2 % of a core
  EXPECT_EQ(meter_.Measure(seconds(15), {{4, {42}}, {5, {43}}}),
            (core::RankActivity{.ranks = 2, .working = 1, .first_working = 5}));
  Process(42, 100.02);  // 0.4 %, as threads that wait for others use
  EXPECT_EQ(meter_.Measure(seconds(20), {{4, {42}}, {5, {43}}}), (core::RankActivity{.ranks = 2}));
}

TEST_F(ActivityMeterTest, ARankWorksThatReadsOrWrites) {
  Process(42, 100, 5000);
  static_cast<void>(meter_.Measure(seconds(10), {{0, {42}}}));
  Process(42, 100, 5000 + 49999);
  EXPECT_EQ(meter_.Measure(seconds(15), {{0, {42}}}).working, 0u);
  Process(42, 100, 5000 + 49999 + 50000);
  EXPECT_EQ(meter_.Measure(seconds(20), {{0, {42}}}).working, 1u);
}

TEST_F(ActivityMeterTest, WhatARankStartedWorksForIt) {
  Process(42, 100);
  Process(43, 5);
  static_cast<void>(meter_.Measure(seconds(10), {{0, {42, 43}}}));
  Process(43, 7);
  EXPECT_EQ(meter_.Measure(seconds(15), {{0, {42, 43}}}).working, 1u);
  Process(42, 100, 0, 9);  // 43 has ended, and others that no look has seen
  EXPECT_EQ(meter_.Measure(seconds(20), {{0, {42}}}).working, 1u);
}

// Its host thread may spin while the GPU waits for others.
TEST_F(ActivityMeterTest, ARankThatComputesAndHasAGpuOpenIsUnknown) {
  Process(42, 100);
  const std::filesystem::path fds = std::filesystem::path(tree_.root()) / "proc/42/fd";
  std::filesystem::create_directories(fds);
  std::filesystem::create_symlink("/dev/nvidia0", fds / "7");
  static_cast<void>(meter_.Measure(seconds(10), {{0, {42}}}));
  Process(42, 105);
  EXPECT_EQ(meter_.Measure(seconds(15), {{0, {42}}}),
            (core::RankActivity{.ranks = 1, .unknown = 1}));
  Process(42, 110, 1000000);
  EXPECT_EQ(meter_.Measure(seconds(20), {{0, {42}}}).working, 1u);
  EXPECT_EQ(meter_.Measure(seconds(25), {{0, {42}}}), (core::RankActivity{.ranks = 1}));
}

}  // namespace
}  // namespace lockstep::agent
