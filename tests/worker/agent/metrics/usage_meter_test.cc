#include "worker/agent/metrics/usage_meter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/worker/topology/fixture_tree.h"

namespace lockstep::agent {
namespace {

class UsageMeterTest : public testing::Test {
 protected:
  // `start`: tells a process from an earlier one with its number.
  void Process(pid_t pid, double cpu_seconds, int pages, int start = 98765) {
    const auto ticks =
        static_cast<int64_t>(cpu_seconds * static_cast<double>(sysconf(_SC_CLK_TCK)));
    const std::string number = std::to_string(pid);
    tree_.File("proc/" + number + "/stat", number + " (python) R 1 1 1 0 -1 0 0 0 0 0 " +
                                               std::to_string(ticks) + " 0 0 0 20 0 3 0 " +
                                               std::to_string(start) + " 104857600 " +
                                               std::to_string(pages) + " 0 1 1 0 0 0 0\n");
  }
  void Network(int64_t received, int64_t sent) {
    tree_.File("proc/net/dev", "eth0: " + std::to_string(received) + " 0 0 0 0 0 0 0 " +
                                   std::to_string(sent) + " 0 0 0 0 0 0 0\n");
  }

  topology::FixtureTree tree_;
  UsageMeter meter_{tree_.root()};
};

TEST_F(UsageMeterTest, RatesCountFromTheSecondLookOn) {
  Process(42, 100, 256);
  Process(43, 50, 256);
  Network(1000, 0);
  core::Usage usage = meter_.Measure(seconds(10), {42, 43});
  EXPECT_EQ(usage.cpu_millicores, -1);
  EXPECT_EQ(usage.received, -1);
  EXPECT_EQ(usage.memory, 512 * sysconf(_SC_PAGESIZE));
  Process(42, 105, 256);
  Process(43, 52.5, 300);
  Network(11000, 500);
  usage = meter_.Measure(seconds(15), {42, 43});
  EXPECT_EQ(usage.cpu_millicores, 1500);
  EXPECT_EQ(usage.received, 2000);
  EXPECT_EQ(usage.sent, 100);
}

TEST_F(UsageMeterTest, AProcessThatBeganSinceCountsWhollyAndOneThatEndedNotAtAll) {
  Process(42, 100, 1);
  static_cast<void>(meter_.Measure(seconds(10), {42}));
  Process(43, 2, 1);
  EXPECT_EQ(meter_.Measure(seconds(12), {43}).cpu_millicores, 1000);
  Process(43, 1, 1, 99999);  // another with its number
  EXPECT_EQ(meter_.Measure(seconds(14), {43}).cpu_millicores, 500);
}

TEST_F(UsageMeterTest, WhatAMachineDoesNotTellIsNotKnown) {
  static_cast<void>(meter_.Measure(seconds(10), {42}));
  const core::Usage usage = meter_.Measure(seconds(12), {42});
  EXPECT_EQ(usage.received, -1);
  EXPECT_EQ(usage.sent, -1);
  EXPECT_EQ(usage.cpu_millicores, 0);
}

TEST_F(UsageMeterTest, AnInterfaceThatWentAwayGivesNoRateBelowZero) {
  Network(5000, 5000);
  static_cast<void>(meter_.Measure(seconds(10), {}));
  Network(10, 10);
  EXPECT_EQ(meter_.Measure(seconds(12), {}).received, 0);
}

}  // namespace
}  // namespace lockstep::agent
