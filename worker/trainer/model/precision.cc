#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "worker/trainer/model/gpt.h"
#include "worker/trainer/model/kernels.h"

namespace lockstep::trainer {
namespace {

// What oneDNN picks here, by its own names.
std::string ProductTarget() {
  switch (dnnl::get_effective_cpu_isa()) {
    case dnnl::cpu_isa::sse41:
      return "sse41";
    case dnnl::cpu_isa::avx:
      return "avx";
    case dnnl::cpu_isa::avx2:
      return "avx2";
    case dnnl::cpu_isa::avx2_vnni:
      return "avx2_vnni";
    case dnnl::cpu_isa::avx512_core:
      return "avx512_core";
    case dnnl::cpu_isa::avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "generic";
  }
}

bool HasBf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace

Status CheckPrecision(Precision precision) {
  if (precision == Precision::kFp32 || HasBf16()) return {};
  return Error::Invalid(
      "precision bf16 needs a CPU with AVX512_BF16 or AMX (Intel since Cooper Lake and Sapphire "
      "Rapids, AMD since Zen 4), which this machine's is not: use precision fp32");
}

std::string InstructionSet() { return ProductTarget() + "+" + KernelTarget(); }

}  // namespace lockstep::trainer
