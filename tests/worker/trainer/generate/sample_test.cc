#include "worker/trainer/generate/sample.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>

namespace lockstep::trainer {
namespace {

constexpr std::array<float, 5> kLogits = {0.5F, 2.0F, -1.0F, 2.0F, 1.0F};

std::map<int32_t, double> Shares(const SampleOptions& options) {
  constexpr int kDraws = 40'000;
  Sampler sampler(options, 17);
  std::map<int32_t, double> shares;
  for (int i = 0; i < kDraws; ++i) shares[sampler.Next(kLogits)] += 1.0 / kDraws;
  return shares;
}

TEST(SamplerTest, AtTemperatureZeroTakesTheLikeliestAndOfEqualsTheFirst) {
  const auto shares = Shares({.temperature = 0});
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares.begin()->first, 1);
}

TEST(SamplerTest, DrawsEachTokenWithItsProbability) {
  for (const double temperature : {0.7, 1.0, 2.0}) {
    double sum = 0;
    for (const float logit : kLogits) sum += std::exp(logit / temperature);
    auto shares = Shares({.temperature = temperature});
    for (size_t i = 0; i < kLogits.size(); ++i) {
      const double expected = std::exp(kLogits[i] / temperature) / sum;
      EXPECT_NEAR(shares[static_cast<int32_t>(i)], expected, 0.01) << i;
    }
  }
}

TEST(SamplerTest, WithTopKDrawsOnlyTheLikeliest) {
  const auto shares = Shares({.temperature = 1, .top_k = 3});
  EXPECT_EQ(shares.size(), 3U);
  EXPECT_FALSE(shares.contains(0));
  EXPECT_FALSE(shares.contains(2));
}

TEST(SamplerTest, RepeatsItselfForOneSeed) {
  Sampler a({}, 3);
  Sampler b({}, 3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a.Next(kLogits), b.Next(kLogits));
}

TEST(SamplerTest, NeverDrawsATokenOfProbabilityZero) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  Sampler sampler({}, 1);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(sampler.Next(std::array<float, 3>{kNever, 0.0F, kNever}), 1);
  }
}

}  // namespace
}  // namespace lockstep::trainer
