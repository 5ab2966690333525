// A libcublasLt.so.13 for machines without a GPU: column-major products in fp32 of bf16 or fp32
// matrices, done in turn on the fake driver's streams. It is as strict as the real one where a
// mistake would only show on a GPU: attributes of another size, matrices that do not meet,
// addresses and rows that are not aligned as was promised, host memory, and a workspace too small
// are refused.
//
// It offers three algorithms, whose bits differ: first, if allowed, one that adds its parts in
// place in whatever order they end (each call another); then one that splits the inner sum in two
// and adds the halves in the workspace; then one that sums from the beginning to the end.
//
//   FAKE_CUBLASLT         the version that it says it is (default 130101)
//   FAKE_CHOICES          bits of the algorithms above that it offers at most (default 7)
//   FAKE_SLOW_PRODUCT_MS  how many ms longer each product takes
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/fakes/fake_nccl/fake_cuda.h"
#include "worker/trainer/cuda/libraries/cublaslt_api.h"

namespace lockstep::trainer::cublaslt {

struct HandleObject {
  int unused = 0;
};

struct DescriptionObject {
  Transpose a = Transpose::kPlain;
  Transpose b = Transpose::kPlain;
  Epilogue epilogue = Epilogue::kNone;
  const void* bias = nullptr;
};

struct LayoutObject {
  Type type = Type::kFp32;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t stride = 0;
};

struct PreferenceObject {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C and D
};

}  // namespace lockstep::trainer::cublaslt

namespace lockstep::fake_nccl {
namespace {

using namespace trainer::cublaslt;  // NOLINT(google-build-using-namespace): all of it

constexpr size_t kRowAlignment = 16;  // bytes

enum Method : uint64_t { kInAnyOrder, kInHalves, kInOrder, kMethods };

int Setting(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::atoi(value);
}

size_t SizeOf(Type type) { return type == Type::kBf16 ? 2 : 4; }

uint32_t ReductionOf(uint64_t method) {
  if (method == kInAnyOrder) return kReduceInPlace;
  return method == kInHalves ? kReduceCompute : kReduceNone;
}

float Load(const void* data, Type type, size_t i) {
  if (type == Type::kFp32) return static_cast<const float*>(data)[i];
  return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[i]} << 16U);
}

void Store(void* data, Type type, size_t i, float value) {
  if (type == Type::kFp32) {
    static_cast<float*>(data)[i] = value;
    return;
  }
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(nan ? (bits >> 16U) | 0x40U : rounded);
}

template <typename T>
Code Set(T* to, const void* from, size_t bytes) {
  if (bytes != sizeof(T) || from == nullptr) return Code::kInvalidValue;
  std::memcpy(static_cast<void*>(to), from, bytes);
  return Code::kSuccess;
}

// The sizes of d[m, n] = a[m, k] b[k, n].
struct Sizes {
  size_t m;
  size_t n;
  size_t k;
};

Code Meet(const DescriptionObject& description, const LayoutObject& a, const LayoutObject& b,
          const LayoutObject& c, const LayoutObject& d, Sizes* sizes) {
  const bool turn_a = description.a == Transpose::kTurned;
  const bool turn_b = description.b == Transpose::kTurned;
  *sizes = {turn_a ? a.columns : a.rows, turn_b ? b.rows : b.columns, turn_a ? a.rows : a.columns};
  if ((turn_b ? b.columns : b.rows) != sizes->k) return Code::kInvalidValue;
  for (const LayoutObject* result : {&c, &d}) {
    if (result->rows != sizes->m || result->columns != sizes->n) return Code::kInvalidValue;
  }
  for (const LayoutObject* layout : {&a, &b, &c, &d}) {
    if (layout->stride < static_cast<int64_t>(layout->rows)) return Code::kInvalidValue;
    if (static_cast<size_t>(layout->stride) * SizeOf(layout->type) % kRowAlignment != 0)
      return Code::kNotSupported;
  }
  if (a.type != b.type || c.type != d.type) return Code::kNotSupported;
  if (a.type == Type::kFp32 && d.type != Type::kFp32) return Code::kNotSupported;
  return Code::kSuccess;
}

size_t BytesOf(const LayoutObject& layout) {
  return ((layout.columns - 1) * static_cast<size_t>(layout.stride) + layout.rows) *
         SizeOf(layout.type);
}

bool Aligned(const void* data) { return reinterpret_cast<uintptr_t>(data) % kRowAlignment == 0; }

bool IsMatrix(const void* data, const LayoutObject& layout) {
  return Aligned(data) && IsDeviceMemory(data, BytesOf(layout));
}

// All that a product needs when its turn comes; the caller's objects may be gone by then.
struct Product {
  DescriptionObject description;
  LayoutObject a_layout, b_layout, c_layout, d_layout;
  Sizes sizes;
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
  uint64_t method;
  float* workspace;
};

// Where the inner sum begins: another place in each call.
size_t AnyPlace(size_t k) {
  static std::atomic<size_t> calls = 0;
  return calls.fetch_add(1) * 7 % k;
}

std::vector<float> Rows(const void* data, const LayoutObject& layout, bool turned, size_t rows,
                        size_t columns) {
  std::vector<float> values(rows * columns);
  const auto stride = static_cast<size_t>(layout.stride);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j)
      values[i * columns + j] = Load(data, layout.type, turned ? i * stride + j : j * stride + i);
  }
  return values;
}

void Multiply(const Product& p) {
  const auto [m, n, k] = p.sizes;
  const std::vector<float> a = Rows(p.a, p.a_layout, p.description.a == Transpose::kTurned, m, k);
  const std::vector<float> b = Rows(p.b, p.b_layout, p.description.b == Transpose::kPlain, n, k);
  const size_t begin = p.method == kInAnyOrder ? AnyPlace(k) : 0;
  const size_t middle = p.method == kInHalves ? k / 2 : 0;
  const bool biased = p.description.epilogue == Epilogue::kBias;
  for (size_t column = 0; column < n; ++column) {
    for (size_t row = 0; row < m; ++row) {
      const float* x = &a[row * k];
      const float* y = &b[column * k];
      float first = 0;
      float sum = 0;
      for (size_t i = 0; i < middle; ++i) first += x[i] * y[i];
      for (size_t i = middle + begin; i < k; ++i) sum += x[i] * y[i];
      for (size_t i = middle; i < middle + begin; ++i) sum += x[i] * y[i];
      if (p.method == kInHalves) {
        p.workspace[0] = first;
        sum = p.workspace[0] + sum;
      }
      const size_t at = row + column * static_cast<size_t>(p.d_layout.stride);
      float value = p.alpha * sum;
      // As the real one, it does not read C, which may be NaN, when beta is 0.
      if (p.beta != 0)
        value += p.beta *
                 Load(p.c, p.c_layout.type, row + column * static_cast<size_t>(p.c_layout.stride));
      if (biased) value += Load(p.description.bias, p.d_layout.type, row);
      Store(p.d, p.d_layout.type, at, value);
    }
  }
}

}  // namespace
}  // namespace lockstep::fake_nccl

// cuBLASLt's own names, as an external program sees them.
using namespace lockstep::fake_nccl;  // NOLINT(google-build-using-namespace)

extern "C" {

size_t cublasLtGetVersion() { return static_cast<size_t>(Setting("FAKE_CUBLASLT", 130101)); }

const char* cublasLtGetStatusName(Code code) {
  switch (code) {
    case Code::kSuccess:
      return "CUBLAS_STATUS_SUCCESS";
    case Code::kNotInitialized:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case Code::kInvalidValue:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case Code::kNotSupported:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS of the fake";
  }
}

Code cublasLtCreate(Handle* handle) {
  if (!HasContext()) return Code::kNotInitialized;
  *handle = new HandleObject();
  return Code::kSuccess;
}

Code cublasLtDestroy(Handle handle) {
  delete handle;
  return Code::kSuccess;
}

Code cublasLtMatmulDescCreate(Description* description, Compute compute, Type scale) {
  if (compute != Compute::kFp32 || scale != Type::kFp32) return Code::kNotSupported;
  *description = new DescriptionObject();
  return Code::kSuccess;
}

Code cublasLtMatmulDescDestroy(Description description) {
  delete description;
  return Code::kSuccess;
}

Code cublasLtMatmulDescSetAttribute(Description description, DescriptionAttribute attribute,
                                    const void* value, size_t bytes) {
  switch (attribute) {
    case DescriptionAttribute::kTransposeA:
      return Set(&description->a, value, bytes);
    case DescriptionAttribute::kTransposeB:
      return Set(&description->b, value, bytes);
    case DescriptionAttribute::kEpilogue:
      return Set(&description->epilogue, value, bytes);
    case DescriptionAttribute::kBiasPointer:
      return Set(&description->bias, value, bytes);
  }
  return Code::kInvalidValue;
}

Code cublasLtMatrixLayoutCreate(Layout* layout, Type type, uint64_t rows, uint64_t columns,
                                int64_t stride) {
  if (type != Type::kFp32 && type != Type::kBf16) return Code::kNotSupported;
  *layout = new LayoutObject{type, rows, columns, stride};
  return Code::kSuccess;
}

Code cublasLtMatrixLayoutDestroy(Layout layout) {
  delete layout;
  return Code::kSuccess;
}

Code cublasLtMatmulPreferenceCreate(Preference* preference) {
  *preference = new PreferenceObject();
  return Code::kSuccess;
}

Code cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete preference;
  return Code::kSuccess;
}

Code cublasLtMatmulPreferenceSetAttribute(Preference preference, PreferenceAttribute attribute,
                                          const void* value, size_t bytes) {
  switch (attribute) {
    case PreferenceAttribute::kMaxWorkspaceBytes:
      return Set(&preference->workspace, value, bytes);
    case PreferenceAttribute::kReductionMask:
      return Set(&preference->reductions, value, bytes);
    case PreferenceAttribute::kMinAlignmentA:
      return Set(&preference->alignment[0], value, bytes);
    case PreferenceAttribute::kMinAlignmentB:
      return Set(&preference->alignment[1], value, bytes);
    case PreferenceAttribute::kMinAlignmentC:
      return Set(&preference->alignment[2], value, bytes);
    case PreferenceAttribute::kMinAlignmentD:
      return Set(&preference->alignment[3], value, bytes);
  }
  return Code::kInvalidValue;
}

Code cublasLtMatmulAlgoGetHeuristic(Handle handle, Description description, Layout a, Layout b,
                                    Layout c, Layout d, Preference preference, int wanted,
                                    Choice* choices, int* found) {
  *found = 0;
  if (handle == nullptr || wanted < 1) return Code::kInvalidValue;
  Sizes sizes{};
  if (const Code met = Meet(*description, *a, *b, *c, *d, &sizes); met != Code::kSuccess)
    return met;
  for (const uint32_t alignment : preference->alignment) {
    if (alignment < kRowAlignment) return Code::kNotSupported;
  }
  if (description->epilogue == Epilogue::kBias && !Aligned(description->bias))
    return Code::kNotSupported;
  const int offered = Setting("FAKE_CHOICES", 7);
  for (uint64_t method = 0; method < kMethods && *found < wanted; ++method) {
    const uint32_t reduction = ReductionOf(method);
    const size_t workspace = method == kInHalves ? sizeof(float) : 0;
    if (((offered >> method) & 1) == 0) continue;
    if ((reduction & ~preference->reductions) != 0 || workspace > preference->workspace) continue;
    Choice& choice = choices[(*found)++];
    std::memset(&choice, 0, sizeof(choice));
    choice.algorithm.data[0] = method;
    // An algorithm is one for the shape that it was chosen for.
    choice.algorithm.data[1] = sizes.m * 1000003 + sizes.n * 1009 + sizes.k;
    choice.workspace = workspace;
  }
  return *found == 0 ? Code::kNotSupported : Code::kSuccess;
}

Code cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm, AlgorithmAttribute attribute,
                                          void* value, size_t bytes, size_t* written) {
  const uint32_t reduction = ReductionOf(algorithm->data[0]);
  if (attribute != AlgorithmAttribute::kReduction || bytes != sizeof(reduction))
    return Code::kInvalidValue;
  std::memcpy(value, &reduction, bytes);
  *written = bytes;
  return Code::kSuccess;
}

Code cublasLtMatmul(Handle handle, Description description, const void* alpha, const void* a,
                    Layout a_layout, const void* b, Layout b_layout, const void* beta,
                    const void* c, Layout c_layout, void* d, Layout d_layout,
                    const Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                    lockstep::collectives::cuda::Stream stream) {
  if (handle == nullptr || algorithm == nullptr || !HasContext()) return Code::kInvalidValue;
  Sizes sizes{};
  const Code met = Meet(*description, *a_layout, *b_layout, *c_layout, *d_layout, &sizes);
  if (met != Code::kSuccess) return met;
  if (algorithm->data[0] >= kMethods ||
      algorithm->data[1] != sizes.m * 1000003 + sizes.n * 1009 + sizes.k)
    return Code::kNotSupported;
  if (!IsMatrix(a, *a_layout) || !IsMatrix(b, *b_layout) || !IsMatrix(c, *c_layout) ||
      !IsMatrix(d, *d_layout))
    return Code::kInvalidValue;
  if (description->epilogue == Epilogue::kBias &&
      (!Aligned(description->bias) ||
       !IsDeviceMemory(description->bias, sizes.m * SizeOf(d_layout->type))))
    return Code::kInvalidValue;
  if (algorithm->data[0] == kInHalves && (workspace_bytes < sizeof(float) || !Aligned(workspace) ||
                                          !IsDeviceMemory(workspace, workspace_bytes)))
    return Code::kInvalidValue;
  const Product product{*description,
                        *a_layout,
                        *b_layout,
                        *c_layout,
                        *d_layout,
                        sizes,
                        a,
                        b,
                        c,
                        d,
                        *static_cast<const float*>(alpha),
                        *static_cast<const float*>(beta),
                        algorithm->data[0],
                        static_cast<float*>(workspace)};
  const std::chrono::milliseconds longer(Setting("FAKE_SLOW_PRODUCT_MS", 0));
  Enqueue(stream, [product, longer] {
    std::this_thread::sleep_for(longer);
    Multiply(product);
  });
  return Code::kSuccess;
}

}  // extern "C"

namespace lockstep::fake_nccl {
namespace {

// The types are those that cublaslt_abi_test.cc compares with the real header's.
[[maybe_unused]] constexpr Api kExported{.get_version = cublasLtGetVersion,
                                         .get_status_name = cublasLtGetStatusName,
                                         .create = cublasLtCreate,
                                         .destroy = cublasLtDestroy,
                                         .description_create = cublasLtMatmulDescCreate,
                                         .description_destroy = cublasLtMatmulDescDestroy,
                                         .description_set = cublasLtMatmulDescSetAttribute,
                                         .layout_create = cublasLtMatrixLayoutCreate,
                                         .layout_destroy = cublasLtMatrixLayoutDestroy,
                                         .preference_create = cublasLtMatmulPreferenceCreate,
                                         .preference_destroy = cublasLtMatmulPreferenceDestroy,
                                         .preference_set = cublasLtMatmulPreferenceSetAttribute,
                                         .get_choices = cublasLtMatmulAlgoGetHeuristic,
                                         .algorithm_get = cublasLtMatmulAlgoConfigGetAttribute,
                                         .multiply = cublasLtMatmul};

}  // namespace
}  // namespace lockstep::fake_nccl
