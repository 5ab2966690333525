#include <cmath>
#include <cstdint>

#include "worker/trainer/model/gpt.h"
#include "worker/trainer/model/split_mix.h"

namespace lockstep::trainer {
namespace {

// Natural logarithm for 0 < x, by operations that are rounded alike everywhere, as a C library's
// need not be. ln m = 2 artanh((m - 1) / (m + 1)), for m in [sqrt(1/2), sqrt(2)).
double Logarithm(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // [0.5, 1)
  if (m < 0.70710678118654752) {
    m *= 2;
    --exponent;
  }
  const double z = (m - 1) / (m + 1);
  double sum = 0;
  for (int n = 25; n > 0; n -= 2) sum = sum * (z * z) + 1.0 / n;
  return 2 * z * sum + exponent * 0.69314718055994531;
}

// Standard normal numbers: Marsaglia's polar method over SplitMix.
class Normal {
 public:
  explicit Normal(uint64_t seed) : bits_(seed) {}

  double Next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    double u = 0;
    double v = 0;
    double s = 0;
    do {
      u = Uniform();
      v = Uniform();
      s = u * u + v * v;
    } while (s >= 1 || s == 0);
    const double factor = std::sqrt(-2 * Logarithm(s) / s);
    spare_ = v * factor;
    has_spare_ = true;
    return u * factor;
  }

 private:
  // Of [-1, 1).
  double Uniform() { return static_cast<double>(static_cast<int64_t>(bits_.Bits())) * 0x1p-63; }

  SplitMix bits_;
  double spare_ = 0;
  bool has_spare_ = false;
};

constexpr double kDeviation = 0.02;

double Deviation(const Shape& shape, const Parameter& parameter) {
  const bool residual = parameter.name.ends_with("c_proj.weight");
  return residual ? kDeviation / std::sqrt(2.0 * shape.layers) : kDeviation;
}

}  // namespace

void InitialiseParameters(const Shape& shape, uint64_t seed, std::span<float> parameters) {
  Normal normal(seed);
  for (const Parameter& parameter : Parameters(shape)) {
    const std::span<float> values = parameters.subspan(parameter.offset, parameter.size);
    if (parameter.decays) {
      const double deviation = Deviation(shape, parameter);
      for (float& value : values) value = static_cast<float>(normal.Next() * deviation);
    } else {
      const float constant = parameter.name.ends_with(".weight") ? 1.0F : 0.0F;
      for (float& value : values) value = constant;
    }
  }
}

}  // namespace lockstep::trainer
