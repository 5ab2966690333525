// The part of cuBLASLt's C API (libcublasLt.so.13 and .12) that Lockstep uses, declared here so
// that it builds without CUDA and runs where there is none.
// tests/worker/trainer/cuda/libraries/cublaslt_abi_test.cc compares it with the real cublasLt.h
// where `tools/deps --cuda` has been run. Names without "cublasLt"; meanings are those of NVIDIA's
// "cuBLAS" manual. Matrices are column-major.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_CUBLASLT_API_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_CUBLASLT_API_H_

#include <cstddef>
#include <cstdint>

#include "worker/trainer/collectives/cuda/cuda_api.h"

namespace lockstep::trainer::cublaslt {

struct HandleObject;
struct DescriptionObject;
struct LayoutObject;
struct PreferenceObject;
using Handle = HandleObject*;
using Description = DescriptionObject*;  // cublasLtMatmulDesc_t
using Layout = LayoutObject*;
using Preference = PreferenceObject*;

enum class Code : int {  // cublasStatus_t
  kSuccess = 0,
  kNotInitialized = 1,
  kAllocFailed = 3,
  kInvalidValue = 7,
  kExecutionFailed = 13,
  kNotSupported = 15,
};

enum class Type : int { kFp32 = 0, kBf16 = 14 };             // cudaDataType
enum class Compute : int { kFp32 = 68 };                     // cublasComputeType_t; not TF32
enum class Transpose : int32_t { kPlain = 0, kTurned = 1 };  // cublasOperation_t
enum class Epilogue : uint32_t { kNone = 1, kBias = 4 };

// Partial sums of a split product: none, added in the output by whoever comes, or kept in fp32 and
// added in order. A mask of them, but for kNone.
enum Reduction : uint32_t { kReduceNone = 0, kReduceInPlace = 1, kReduceCompute = 2 };

enum class DescriptionAttribute : int {  // cublasLtMatmulDescAttributes_t
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
};
enum class PreferenceAttribute : int {  // cublasLtMatmulPreferenceAttributes_t
  kMaxWorkspaceBytes = 1,               // uint64_t
  kReductionMask = 3,                   // uint32_t
  kMinAlignmentA = 5,                   // uint32_t, bytes
  kMinAlignmentB = 6,
  kMinAlignmentC = 7,
  kMinAlignmentD = 8,
};
enum class AlgorithmAttribute : int { kReduction = 3 };  // cublasLtMatmulAlgoConfigAttributes_t

struct Algorithm {  // cublasLtMatmulAlgo_t
  uint64_t data[8];
};

struct Choice {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace;
  Code state;
  float waves;
  int reserved[4];
};

// 130101 is 13.1.1.
constexpr size_t Version(size_t major, size_t minor, size_t patch) {
  return major * 10000 + minor * 100 + patch;
}
inline constexpr size_t kOldest = Version(12, 0, 0);

// What libcublasLt exports, by the names in blas_library.cc.
struct Api {
  size_t (*get_version)() = nullptr;
  const char* (*get_status_name)(Code code) = nullptr;
  Code (*create)(Handle* handle) = nullptr;
  Code (*destroy)(Handle handle) = nullptr;

  Code (*description_create)(Description* description, Compute compute, Type scale) = nullptr;
  Code (*description_destroy)(Description description) = nullptr;
  Code (*description_set)(Description description, DescriptionAttribute attribute,
                          const void* value, size_t bytes) = nullptr;
  Code (*layout_create)(Layout* layout, Type type, uint64_t rows, uint64_t columns,
                        int64_t stride) = nullptr;
  Code (*layout_destroy)(Layout layout) = nullptr;
  Code (*preference_create)(Preference* preference) = nullptr;
  Code (*preference_destroy)(Preference preference) = nullptr;
  Code (*preference_set)(Preference preference, PreferenceAttribute attribute, const void* value,
                         size_t bytes) = nullptr;

  Code (*get_choices)(Handle handle, Description description, Layout a, Layout b, Layout c,
                      Layout d, Preference preference, int wanted, Choice* choices,
                      int* found) = nullptr;
  Code (*algorithm_get)(const Algorithm* algorithm, AlgorithmAttribute attribute, void* value,
                        size_t bytes, size_t* written) = nullptr;
  // d = alpha a b + beta c
  Code (*multiply)(Handle handle, Description description, const void* alpha, const void* a,
                   Layout a_layout, const void* b, Layout b_layout, const void* beta, const void* c,
                   Layout c_layout, void* d, Layout d_layout, const Algorithm* algorithm,
                   void* workspace, size_t workspace_bytes,
                   collectives::cuda::Stream stream) = nullptr;
};

}  // namespace lockstep::trainer::cublaslt

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_LIBRARIES_CUBLASLT_API_H_
