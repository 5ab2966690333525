#include "worker/trainer/cuda/check/mlp_shape.h"

#include <cassert>
#include <cmath>
#include <cstddef>

namespace lockstep::trainer {
namespace {

// splitmix64: https://prng.di.unimi.it/splitmix64.c describes it.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

// In [-1, 1), the same for the same `index`.
float Uniform(uint64_t index) {
  return static_cast<float>(static_cast<double>(Mix(index) >> 11U) * 0x1p-52 - 1.0);
}

}  // namespace

MlpBatch MakeMlpBatch(const MlpShape& shape, uint64_t first, unsigned rows) {
  assert(shape.in > 0);
  MlpBatch batch;
  batch.rows = rows;
  for (uint64_t row = first; row < first + rows; ++row) {
    const size_t begin = batch.x.size();
    for (unsigned i = 0; i < shape.in; ++i) batch.x.push_back(Uniform(row * shape.in + i));
    for (unsigned o = 0; o < shape.out; ++o) {
      const float a = batch.x[begin + o % shape.in];
      const float b = batch.x[begin + (o + 1) % shape.in];
      batch.target.push_back(0.5F * std::sin(2 * a) + 0.25F * b);
    }
  }
  return batch;
}

std::vector<float> MakeMlpParameters(const MlpShape& shape, uint64_t seed) {
  std::vector<float> parameters(shape.parameters());
  const float scale1 = 1.0F / std::sqrt(static_cast<float>(shape.in));
  const float scale2 = 1.0F / std::sqrt(static_cast<float>(shape.hidden));
  for (unsigned i = 0; i < shape.parameters(); ++i)
    parameters[i] = Uniform(Mix(seed) + i) * (i < shape.w1() ? scale2 : scale1);
  return parameters;
}

}  // namespace lockstep::trainer
