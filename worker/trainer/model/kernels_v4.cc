#include <algorithm>
#include <bit>
#include <cmath>

#include "worker/trainer/model/kernels.h"

namespace lockstep::trainer {

#if defined(__x86_64__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v4"))), apply_to = function)
namespace v4 {
#include "worker/trainer/model/kernels.inc"
}  // namespace v4
#pragma clang attribute pop

template <typename T, typename A>
const KernelTable<T, A>& V4Kernels() {
  return v4::kTable<T, A>;
}

template const KernelTable<float, float>& V4Kernels();
template const KernelTable<float, Bf16>& V4Kernels();
template const KernelTable<double, double>& V4Kernels();
#endif

}  // namespace lockstep::trainer
