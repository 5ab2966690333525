#include <algorithm>
#include <bit>
#include <cmath>

#include "worker/trainer/model/kernels.h"

namespace lockstep::trainer {

namespace baseline {
#include "worker/trainer/model/kernels.inc"
}  // namespace baseline

template <typename T, typename A>
const KernelTable<T, A>& BaselineKernels() {
  return baseline::kTable<T, A>;
}

template const KernelTable<float, float>& BaselineKernels();
template const KernelTable<float, Bf16>& BaselineKernels();
template const KernelTable<double, double>& BaselineKernels();

}  // namespace lockstep::trainer
