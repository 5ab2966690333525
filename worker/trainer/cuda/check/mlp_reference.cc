#include "worker/trainer/cuda/check/mlp_reference.h"

#include <cmath>
#include <cstddef>

namespace lockstep::trainer {

double MlpLossAndGradient(const MlpShape& shape, const std::vector<double>& parameters,
                          const MlpBatch& batch, std::vector<double>* gradient) {
  const double* w2 = parameters.data() + shape.w2();
  const double* b2 = parameters.data() + shape.b2();
  const double* w1 = parameters.data() + shape.w1();
  const double* b1 = parameters.data() + shape.b1();
  gradient->assign(shape.parameters(), 0);
  double* dw2 = gradient->data() + shape.w2();
  double* db2 = gradient->data() + shape.b2();
  double* dw1 = gradient->data() + shape.w1();
  double* db1 = gradient->data() + shape.b1();
  const double scale = 1.0 / (static_cast<double>(batch.rows) * shape.out);
  double loss = 0;
  std::vector<double> h(shape.hidden);
  for (size_t row = 0; row < batch.rows; ++row) {
    const float* x = batch.x.data() + row * shape.in;             // [in]
    const float* target = batch.target.data() + row * shape.out;  // [out]
    for (size_t j = 0; j < shape.hidden; ++j) {
      double sum = b1[j];
      for (size_t i = 0; i < shape.in; ++i) sum += static_cast<double>(x[i]) * w1[j * shape.in + i];
      h[j] = std::tanh(sum);
    }
    std::vector<double> dh(shape.hidden, 0);
    for (size_t o = 0; o < shape.out; ++o) {
      double y = b2[o];
      for (size_t j = 0; j < shape.hidden; ++j) y += h[j] * w2[o * shape.hidden + j];
      const double difference = y - static_cast<double>(target[o]);
      loss += scale * difference * difference;
      const double dy = 2 * scale * difference;
      db2[o] += dy;
      for (size_t j = 0; j < shape.hidden; ++j) {
        dw2[o * shape.hidden + j] += dy * h[j];
        dh[j] += dy * w2[o * shape.hidden + j];
      }
    }
    for (size_t j = 0; j < shape.hidden; ++j) {
      const double before = dh[j] * (1 - h[j] * h[j]);
      db1[j] += before;
      for (size_t i = 0; i < shape.in; ++i)
        dw1[j * shape.in + i] += before * static_cast<double>(x[i]);
    }
  }
  return loss;
}

}  // namespace lockstep::trainer
