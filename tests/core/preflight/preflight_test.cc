#include "core/preflight/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

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

// Machines of GPUs of which only products were measured.
std::vector<MachineFigures> Gpus(const std::vector<std::vector<double>>& products) {
  std::vector<MachineFigures> machines;
  for (const std::vector<double>& of_machine : products) {
    MachineFigures& machine = machines.emplace_back();
    machine.figures.products = 10;
    for (const double rate : of_machine) {
      const auto number = static_cast<uint32_t>(machine.gpus.size());
      machine.gpus.push_back({.number = number, .products = rate, .clock = {}, .fault = ""});
    }
  }
  return machines;
}

TEST(PreflightTest, AGpuIsHeldToTheMedianOfAllGpusAndNamed) {
  std::vector<MachineFigures> machines = Gpus({{600, 610, 620}, {615, 300, 600}});
  machines[1].gpus[1].clock = {.hertz = 900e6, .most = 1980e6, .slowed = kSlowedByHeat};
  Judge({}, &machines);
  EXPECT_THAT(machines[0].slow, IsEmpty());
  EXPECT_THAT(machines[1].slow,
              ElementsAre("GPU 1: products 300 TFLOP/s, where the median is 600 TFLOP/s (slowed by "
                          "its temperature: 900 of 1980 MHz)"));
}

TEST(PreflightTest, AGpuWithAFaultIsNotToBeUsedHoweverFastItIs) {
  std::vector<MachineFigures> machines = Gpus({{600, 600}});
  machines[0].gpus[1].fault = "2 uncorrected errors of its memory";
  Judge({}, &machines);
  EXPECT_THAT(machines[0].slow, ElementsAre("GPU 1: 2 uncorrected errors of its memory"));
}

TEST(PreflightTest, AMachineThatLacksAGpuIsFound) {
  std::vector<MachineFigures> machines = Gpus({{600, 600}, {600}, {600, 600}});
  Judge({}, &machines);
  EXPECT_THAT(machines[1].slow, ElementsAre("1 GPUs answer, where the median is 2"));
  EXPECT_TRUE(machines[0].well() && machines[2].well());
  machines[1] = {};  // of which nothing is known
  Judge({}, &machines);
  EXPECT_TRUE(machines[1].well());
}

TEST(PreflightTest, GpusAreInTheTableAndInWordsWhereThereAreAny) {
  std::vector<MachineFigures> machines = Gpus({{600, 655.4}, {610, 620}});
  machines[0].figures.gpu_link = 180;
  EXPECT_THAT(FigureTable(machines), HasSubstr("GPU PRODUCTS, TFLOP/s"));
  EXPECT_THAT(FigureTable(machines), HasSubstr("180             600 to 655"));
  EXPECT_EQ(TypicalInWords(machines),
            "products 10 GFLOP/s, gpu-link 180 GB/s, GPU products 610 TFLOP/s");
  EXPECT_THAT(FigureTable(Links({1})), Not(HasSubstr("GPU")));
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
