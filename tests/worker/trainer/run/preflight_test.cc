#include "worker/trainer/run/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::trainer {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Machines of which only the link was measured.
std::vector<MachineFigures> Links(const std::vector<float>& rates) {
  std::vector<MachineFigures> machines(rates.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    machines[i].figures[static_cast<size_t>(Part::kLink)] = rates[i];
  }
  return machines;
}

TEST(PreflightTest, WhatIsBelowTheMedianByTheMarginIsSlow) {
  std::vector<MachineFigures> machines = Links({1, 0.71F, 0.69F, 1, 1});
  Judge({.margin = 0.3}, &machines);
  EXPECT_THAT(machines[0].slow, IsEmpty());
  EXPECT_THAT(machines[1].slow, IsEmpty());
  EXPECT_THAT(machines[2].slow, ElementsAre("link 0.69 GB/s, where the median is 1 GB/s"));
}

TEST(PreflightTest, OfTwoMachinesTheSlowerOneIsTheMeasureAndTheLeastIsFixed) {
  std::vector<MachineFigures> machines = Links({10, 1});
  Judge({.margin = 0.3}, &machines);
  EXPECT_THAT(machines[1].slow, IsEmpty());
  Judge({.margin = 0.3, .least = {0, 0, 0, 2}}, &machines);
  EXPECT_THAT(machines[1].slow, ElementsAre("link 1 GB/s, and 2 GB/s is the least"));
  EXPECT_THAT(machines[0].slow, IsEmpty());
}

TEST(PreflightTest, WhatWasNotMeasuredIsNotSlow) {
  std::vector<MachineFigures> machines = Links({kNotMeasured});
  Judge({.margin = 0, .least = {1, 1, 1, 1}}, &machines);
  EXPECT_THAT(machines[0].slow, IsEmpty());
}

TEST(PreflightTest, InEachRoundAMachineHasOnePartnerAndAllPairsMeet) {
  for (int count = 0; count <= 9; ++count) {
    std::set<std::pair<int, int>> met;
    for (const auto& round : PairRounds(count, 100)) {
      std::set<int> busy;
      for (const auto& [one, other] : round) {
        EXPECT_LT(one, other);
        EXPECT_TRUE(busy.insert(one).second && busy.insert(other).second) << count;
        EXPECT_TRUE(met.emplace(one, other).second) << count;
      }
    }
    EXPECT_EQ(met.size(), static_cast<size_t>(count * (count - 1) / 2)) << count;
  }
  EXPECT_EQ(PairRounds(1000, 8).size(), 8u);
}

}  // namespace
}  // namespace lockstep::trainer
