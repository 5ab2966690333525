#include "worker/agent/measure/gpu_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::agent {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(GpuRates, TheTrainersLinesAreRead) {
  const auto gpus = ParseGpuLines(
      R"({"type": "gpu", "gpu": 3, "name": "NVIDIA H100", "pci_address": "0000:1b:00.0", "products": 650.5, "clock_hertz": 1.2e9, "max_clock_hertz": 1.98e9, "slowed": 2, "fault": "", "without": ""}
{"type": "gpu", "gpu": 4, "products": null, "fault": "it cannot be used: ECC error"}
)");
  ASSERT_THAT(gpus, SizeIs(2));
  EXPECT_EQ(gpus[0], (core::GpuFigures{3, 650.5, {1.2e9, 1.98e9, core::kSlowedByHeat}, ""}));
  EXPECT_EQ(gpus[1], (core::GpuFigures{4, core::kNotMeasured, {}, "it cannot be used: ECC error"}));
}

TEST(GpuRates, WhatIsNoLineOfAGpuIsPassedOver) {
  EXPECT_THAT(ParseGpuLines(""), IsEmpty());
  EXPECT_THAT(ParseGpuLines("{\"type\": \"gpu\""), IsEmpty());
  EXPECT_THAT(ParseGpuLines("[1]\n\n{\"type\": 3}\n{\"gpu\": 1}\nNCCL version 2.30\n"), IsEmpty());
  const auto wrong = ParseGpuLines(
      R"({"type": "gpu", "gpu": -1, "products": "fast", "slowed": 1e300, "fault": 7})");
  ASSERT_THAT(wrong, SizeIs(1));
  EXPECT_EQ(wrong[0].products, core::kNotMeasured);
  std::string many;
  for (int i = 0; i < 100; ++i) many += "{\"type\": \"gpu\"}\n";
  EXPECT_THAT(ParseGpuLines(many), SizeIs(core::kMaxGpus));
}

TEST(GpuRates, AnAllReduceCountsWhereItsValuesAreRight) {
  const std::string size = R"({"type": "size", "bytes": 16777216, "busbw": 181.5})"
                           "\n";
  EXPECT_EQ(ParseAllReduce(size + R"({"type": "summary", "passed": true})"), 181.5);
  EXPECT_EQ(ParseAllReduce(size + R"({"type": "summary", "passed": false})"), 0);
  EXPECT_EQ(ParseAllReduce(size), 0);
  EXPECT_EQ(ParseAllReduce(""), 0);
}

}  // namespace
}  // namespace lockstep::agent
