#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <span>

#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
  double kurtosis = 0;
};

Moments MomentsOf(std::span<const float> values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const float v : values) m.mean += v / n;
  double fourth = 0;
  for (const float v : values) {
    m.deviation += std::pow(v - m.mean, 2) / n;
    fourth += std::pow(v - m.mean, 4) / n;
  }
  m.kurtosis = fourth / (m.deviation * m.deviation);
  m.deviation = std::sqrt(m.deviation);
  return m;
}

TEST(InitialiseParametersTest, IsNormalInMatricesAndConstantElsewhere) {
  const Shape shape = *PresetShape("nano", 128);
  std::vector<float> parameters(ParameterCount(shape));
  InitialiseParameters(shape, 42, parameters);
  for (const Parameter& p : Parameters(shape)) {
    const Moments m = MomentsOf(std::span(parameters).subspan(p.offset, p.size));
    if (!p.decays) {
      EXPECT_NEAR(m.mean, p.name.ends_with("weight") ? 1 : 0, 1e-12) << p.name;
      EXPECT_NEAR(m.deviation, 0, 1e-12) << p.name;
      continue;
    }
    const double expected = p.name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(8) : 0.02;
    EXPECT_NEAR(m.deviation / expected, 1, 0.03) << p.name;
    EXPECT_NEAR(m.mean / expected, 0, 0.03) << p.name;
    EXPECT_NEAR(m.kurtosis, 3, 0.2) << p.name;
  }
}

TEST(InitialiseParametersTest, IsOfItsSeed) {
  const Shape shape{1, 2, 8, 16, 4};
  std::vector<float> a(ParameterCount(shape));
  std::vector<float> b(a);
  std::vector<float> c(a);
  InitialiseParameters(shape, 1, a);
  InitialiseParameters(shape, 1, b);
  InitialiseParameters(shape, 2, c);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

TEST(InitialiseParametersTest, IsTheSameOnEveryMachine) {
  const Shape shape{1, 2, 8, 16, 4};
  std::vector<float> parameters(ParameterCount(shape));
  InitialiseParameters(shape, 1234, parameters);
  uint64_t hash = 14695981039346656037U;  // FNV-1a, of the bits
  for (const float p : parameters) hash = (hash ^ std::bit_cast<uint32_t>(p)) * 1099511628211U;
  EXPECT_EQ(hash, 8032291562147056585U);
}

}  // namespace
}  // namespace lockstep::trainer
