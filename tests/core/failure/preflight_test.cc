#include "core/failure/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Machines of which only the link was measured.
std::vector<MachineFigures> Links(const std::vector<double>& rates) {
  std::vector<MachineFigures> machines(rates.size());
  for (size_t i = 0; i < rates.size(); ++i) machines[i].figures.link = rates[i];
  return machines;
}

TEST(PreflightTest, WhatIsBelowTheMedianByTheMarginIsSlow) {
  std::vector<MachineFigures> machines = Links({1, 0.71, 0.69, 1, 1});
  Judge({.margin = 0.3, .least = {}}, &machines);
  EXPECT_THAT(machines[0].slow, IsEmpty());
  EXPECT_THAT(machines[1].slow, IsEmpty());
  EXPECT_THAT(machines[2].slow, ElementsAre("link 0.69 GB/s, where the median is 1 GB/s"));
  EXPECT_FALSE(machines[2].below_least);
}

TEST(PreflightTest, OfTwoMachinesTheSlowerOneIsTheMeasureAndTheLeastIsFixed) {
  std::vector<MachineFigures> machines = Links({10, 1});
  Judge({.margin = 0.3, .least = {}}, &machines);
  EXPECT_THAT(machines[1].slow, IsEmpty());
  Judge({.margin = 0.3, .least = {.link = 2}}, &machines);
  EXPECT_THAT(machines[1].slow, ElementsAre("link 1 GB/s, and 2 GB/s is the least"));
  EXPECT_TRUE(machines[1].below_least);
  EXPECT_THAT(machines[0].slow, IsEmpty());
}

TEST(PreflightTest, WhatWasNotMeasuredIsNotSlow) {
  std::vector<MachineFigures> machines = Links({kNotMeasured});
  Judge({.margin = 0, .least = {1, 1, 1, 1}}, &machines);
  EXPECT_THAT(machines[0].slow, IsEmpty());
}

TEST(PreflightTest, OneSlowPartnerMakesNoMachineSlow) {
  EXPECT_EQ(MedianLink({0.01, 1}), 1);
  EXPECT_EQ(MedianLink({0.01, 1, 0.01}), 0.01);
  EXPECT_EQ(MedianLink({}), kNotMeasured);
}

TEST(PreflightTest, WordsAndTheTableTellWhatWasMeasuredAndWhatIsSlow) {
  EXPECT_EQ(InWords({.products = 41.234, .link = 0.5}), "products 41.2 GFLOP/s, link 0.5 GB/s");
  std::vector<MachineFigures> machines = Links({1, 0.1, 1});
  Judge({.margin = 0.3, .least = {}}, &machines);
  EXPECT_THAT(FigureTable(machines), HasSubstr("slow: link 0.1 GB/s, where the median is 1 GB/s"));
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
}  // namespace lockstep::core
