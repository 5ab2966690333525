#include "worker/trainer/engine/sync.h"

#include <algorithm>
#include <cmath>

namespace lockstep::trainer {

Scale ScaleOf(double sum_of_squares, double loss, const StepOptions& options) {
  constexpr double kTiny = 1e-6;  // torch.nn.utils.clip_grad_norm_'s
  const double mean = 1.0 / options.micro_batches;
  Scale scale;
  scale.norm = std::sqrt(sum_of_squares) * mean;
  scale.finite = std::isfinite(scale.norm) && std::isfinite(loss);
  const double clip = options.clip > 0 ? options.clip / (scale.norm + kTiny) : 1.0;
  scale.value = mean * std::min(1.0, clip);
  return scale;
}

}  // namespace lockstep::trainer
