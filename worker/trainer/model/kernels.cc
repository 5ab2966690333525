#include "worker/trainer/model/kernels.h"

#include <string_view>

namespace lockstep::trainer {

const char* KernelTarget() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("x86-64-v4")) return "x86-64-v4";
  if (__builtin_cpu_supports("x86-64-v3")) return "x86-64-v3";
#endif
  return "baseline";
}

template <typename T, typename A>
const KernelTable<T, A>& CpuKernels() {
#if defined(__x86_64__)
  const std::string_view target = KernelTarget();
  if (target == "x86-64-v4") return V4Kernels<T, A>();
  if (target == "x86-64-v3") return V3Kernels<T, A>();
#endif
  return BaselineKernels<T, A>();
}

template const KernelTable<float, float>& CpuKernels();
template const KernelTable<float, Bf16>& CpuKernels();
template const KernelTable<double, double>& CpuKernels();

}  // namespace lockstep::trainer
