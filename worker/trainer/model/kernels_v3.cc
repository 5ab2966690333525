#include <algorithm>
#include <bit>
#include <cmath>

#include "worker/trainer/model/kernels.h"

namespace lockstep::trainer {

#if defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
namespace v3 {
#include "worker/trainer/model/kernels.inc"
}  // namespace v3
#pragma clang attribute pop

template <typename T, typename A>
const KernelTable<T, A>& V3Kernels() {
  return v3::kTable<T, A>;
}

template const KernelTable<float, float>& V3Kernels();
template const KernelTable<float, Bf16>& V3Kernels();
template const KernelTable<double, double>& V3Kernels();
#endif

}  // namespace lockstep::trainer
