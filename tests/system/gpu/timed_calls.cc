// libtimed.so, by which tests/system/gpu/run learns where a step's time goes: the program that is
// measured opens it in place of libcuda.so.1 and libcublasLt.so.13 (LOCKSTEP_CUDA_LIBRARY,
// LOCKSTEP_CUBLASLT_LIBRARY). It depends on both, so that whatever it does not define is theirs,
// and puts an event before and behind each kernel and each product. When the program lets the GPU
// go, a line of JSON for each kind of kernel goes to the file that TIMED_CALLS names:
//
//   {"kernel": "attention_bf16", "calls": 480, "seconds": 0.081, "bytes": 1.2e9, "flops": 3.1e10}
//
// bytes: what it must read and write at least, each operand once. flops: what a causal attention or
// a product takes; of the other kernels 0. Both are sums over the calls.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "worker/trainer/collectives/cuda/cuda_api.h"
#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/libraries/cublaslt_api.h"

namespace lockstep::gpu {
namespace {

namespace cuda = collectives::cuda;
namespace blas = trainer::cublaslt;
namespace kernels = trainer::gpu;

struct Cost {
  double bytes = 0;
  double flops = 0;
};

struct Total {
  size_t calls = 0;
  double seconds = 0;
  Cost cost;
};

// The real library's function; the program ends where there is none.
template <typename Function>
void Real(const char* library, const char* name, Function* function) {
  void* opened = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  *function = opened == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(opened, name));
  if (*function != nullptr) return;
  std::fprintf(stderr, "libtimed.so: %s has no %s\n", library, name);
  _exit(1);
}

using CostOf = std::function<Cost(const void* arguments)>;
using Costs = std::map<std::string, CostOf, std::less<>>;

template <typename Arguments, typename Function>
void Add(Costs& costs, Function cost) {
  costs[Arguments::kName] = [cost](const void* arguments) {
    return cost(*static_cast<const Arguments*>(arguments));
  };
}

// N C of an attention's arguments.
double Elements(unsigned batch, unsigned context, unsigned heads) {
  return static_cast<double>(batch) * context * heads * kernels::kHeadWidth;
}

// Of kernels whose operands are A.
template <typename A>
void AddOperandKernels(Costs& costs) {
  constexpr double kA = sizeof(A);
  const auto area = [](const auto& k) { return static_cast<double>(k.rows) * k.width; };
  Add<kernels::ConvertParameters<A>>(costs, [](const auto& k) { return Cost{(4 + kA) * k.count}; });
  Add<kernels::ResidualNorm<A>>(costs, [area](const auto& k) {
    return Cost{area(k) * (4 + kA + (k.y == nullptr ? 0 : 4 + kA))};
  });
  Add<kernels::ResidualAdd<A>>(costs, [](const auto& k) { return Cost{(8 + kA) * k.count}; });
  Add<kernels::AddBias<A>>(costs, [area](const auto& k) { return Cost{(4 + kA) * area(k)}; });
  Add<kernels::Gelu<A>>(costs, [](const auto& k) { return Cost{2 * kA * k.count}; });
  Add<kernels::GeluBackward<A>>(costs, [](const auto& k) { return Cost{3 * kA * k.count}; });
  Add<kernels::Classifier<A>>(costs, [](const auto& k) {
    return Cost{2 * kA * static_cast<double>(k.rows) * k.vocabulary};
  });
  Add<kernels::NormBackward<A>>(costs, [area](const auto& k) {
    return Cost{area(k) *
                (kA + 8 + (k.residual == nullptr ? 0 : 4) + (k.dx_operand == nullptr ? 0 : kA))};
  });
  Add<kernels::BiasBackward<A>>(costs, [area](const auto& k) { return Cost{kA * area(k)}; });
  Add<kernels::AttentionDelta<A>>(
      costs, [](const auto& k) { return Cost{2 * kA * Elements(k.batch, k.context, k.heads)}; });
  // A product of scores, of the half that is not masked: N C T flops. Forward takes two of them;
  // the gradient of q three, and that of k and v four.
  Add<kernels::Attention<A>>(costs, [](const auto& k) {
    const double n = Elements(k.batch, k.context, k.heads);
    return Cost{4 * kA * n, 2 * n * k.context};
  });
  Add<kernels::AttentionQueries<A>>(costs, [](const auto& k) {
    const double n = Elements(k.batch, k.context, k.heads);
    return Cost{5 * kA * n, 3 * n * k.context};
  });
  Add<kernels::AttentionKeys<A>>(costs, [](const auto& k) {
    const double n = Elements(k.batch, k.context, k.heads);
    return Cost{6 * kA * n, 4 * n * k.context};
  });
  Add<kernels::AdamW<A>>(costs, [](const auto& k) { return Cost{(28 + kA) * k.count}; });
}

Costs AllCosts() {
  Costs costs;
  AddOperandKernels<trainer::Bf16>(costs);
  AddOperandKernels<float>(costs);
  Add<kernels::Embed>(costs, [](const auto& k) { return Cost{8.0 * k.rows * k.width}; });
  Add<kernels::ColumnSums>(costs,
                           [](const auto& k) { return Cost{4.0 * k.parts * k.groups * k.width}; });
  Add<kernels::TokenBackward>(costs,
                              [](const auto& k) { return Cost{4.0 * k.vocabulary * k.width}; });
  Add<kernels::PositionBackward>(
      costs, [](const auto& k) { return Cost{4.0 * k.batch * k.context * k.width}; });
  Add<kernels::TreeAdd>(costs,
                        [](const auto& k) { return Cost{12.0 * static_cast<double>(k.count)}; });
  Add<kernels::Copy>(costs, [](const auto& k) { return Cost{8.0 * static_cast<double>(k.count)}; });
  Add<kernels::SliceSum>(
      costs, [](const auto& k) { return Cost{4.0 * (k.n + 1) * static_cast<double>(k.count)}; });
  // At most: pieces end with their parameters.
  Add<kernels::SquaredNorm>(
      costs, [](const auto& k) { return Cost{4.0 * k.parts * kernels::kNormBlock}; });
  Add<kernels::Checksum>(costs,
                         [](const auto& k) { return Cost{4.0 * static_cast<double>(k.count)}; });
  return costs;
}

// What was launched, and what it took. From any thread; one for the process.
class Calls {
 public:
  static Calls& All() {
    static auto* calls = new Calls();  // outlives what the program's end still launches
    return *calls;
  }

  // Runs `launch` between two events.
  template <typename Launch>
  auto Time(const std::string& name, const Cost& cost, cuda::Stream stream, Launch launch) {
    const std::lock_guard lock(mutex_);
    if (pending_.size() == kMost) Collect();
    Call call{.name = name, .cost = cost};
    create_(&call.begin, cuda::kEventBlockingSync);
    create_(&call.end, cuda::kEventBlockingSync);
    record_(call.begin, stream);
    const auto code = launch();
    record_(call.end, stream);
    pending_.push_back(std::move(call));
    return code;
  }

  void Write() {
    const std::lock_guard lock(mutex_);
    Collect();
    const char* path = std::getenv("TIMED_CALLS");
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
    if (file == nullptr) return;
    for (const auto& [name, total] : totals_) {
      std::fprintf(file,
                   "{\"kernel\": \"%s\", \"calls\": %zu, \"seconds\": %.9f, \"bytes\": %.0f, "
                   "\"flops\": %.0f}\n",
                   name.c_str(), total.calls, total.seconds, total.cost.bytes, total.cost.flops);
    }
    std::fclose(file);
  }

 private:
  static constexpr size_t kMost = 4096;  // calls whose events are kept

  struct Call {
    std::string name;
    Cost cost;
    cuda::Event begin = nullptr;
    cuda::Event end = nullptr;
  };

  Calls() {
    const char* library = "libcuda.so.1";
    Real(library, "cuEventCreate", &create_);
    Real(library, "cuEventDestroy_v2", &destroy_);
    Real(library, "cuEventRecord", &record_);
    Real(library, "cuEventSynchronize", &synchronize_);
    Real(library, "cuEventElapsedTime", &elapsed_);
  }

  // Waits for all that is pending.
  void Collect() {
    for (const Call& call : pending_) {
      float milliseconds = 0;
      if (synchronize_(call.end) == cuda::kSuccess &&
          elapsed_(&milliseconds, call.begin, call.end) == cuda::kSuccess) {
        Total& total = totals_[call.name];
        ++total.calls;
        total.seconds += static_cast<double>(milliseconds) / 1e3;
        total.cost.bytes += call.cost.bytes;
        total.cost.flops += call.cost.flops;
      }
      destroy_(call.begin);
      destroy_(call.end);
    }
    pending_.clear();
  }

  std::mutex mutex_;
  std::vector<Call> pending_;
  std::map<std::string, Total> totals_;
  decltype(cuda::Api::event_create) create_ = nullptr;
  decltype(cuda::Api::event_destroy) destroy_ = nullptr;
  decltype(cuda::Api::event_record) record_ = nullptr;
  decltype(cuda::Api::event_synchronize) synchronize_ = nullptr;
  decltype(cuda::Api::event_elapsed_time) elapsed_ = nullptr;
};

// What handles stand for, told when they were made.
struct Matrix {
  blas::Type type;
  uint64_t rows;
  uint64_t columns;

  double elements() const { return static_cast<double>(rows) * static_cast<double>(columns); }
  double bytes() const { return elements() * (type == blas::Type::kBf16 ? 2 : 4); }
};
std::mutex names_mutex;
std::map<cuda::Function, std::string> names;
std::map<blas::Layout, Matrix> matrices;

Matrix MatrixOf(blas::Layout layout) {
  const std::lock_guard lock(names_mutex);
  return matrices[layout];
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

cuda::Code cuModuleGetFunction(cuda::Function* function, cuda::Module module, const char* name) {
  static decltype(cuda::Api::module_get_function) real = nullptr;
  if (real == nullptr) Real("libcuda.so.1", "cuModuleGetFunction", &real);
  const cuda::Code code = real(function, module, name);
  const std::lock_guard lock(names_mutex);
  if (code == cuda::kSuccess) names[*function] = name;
  return code;
}

cuda::Code cuLaunchKernel(cuda::Function function, unsigned grid_x, unsigned grid_y,
                          unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, cuda::Stream stream, void** parameters,
                          void** extra) {
  static decltype(cuda::Api::launch_kernel) real = nullptr;
  if (real == nullptr) Real("libcuda.so.1", "cuLaunchKernel", &real);
  static const Costs costs = AllCosts();
  std::string name;
  {
    const std::lock_guard lock(names_mutex);
    name = names[function];
  }
  const auto known = costs.find(name);
  const Cost cost = known == costs.end() ? Cost{} : known->second(parameters[0]);
  return Calls::All().Time(name, cost, stream, [&] {
    return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                parameters, extra);
  });
}

cuda::Code cuDevicePrimaryCtxRelease_v2(cuda::Device device) {
  static decltype(cuda::Api::primary_context_release) real = nullptr;
  if (real == nullptr) Real("libcuda.so.1", "cuDevicePrimaryCtxRelease_v2", &real);
  Calls::All().Write();
  return real(device);
}

blas::Code cublasLtMatrixLayoutCreate(blas::Layout* layout, blas::Type type, uint64_t rows,
                                      uint64_t columns, int64_t stride) {
  static decltype(blas::Api::layout_create) real = nullptr;
  if (real == nullptr) Real("libcublasLt.so.13", "cublasLtMatrixLayoutCreate", &real);
  const blas::Code code = real(layout, type, rows, columns, stride);
  const std::lock_guard lock(names_mutex);
  if (code == blas::Code::kSuccess) matrices[*layout] = {type, rows, columns};
  return code;
}

blas::Code cublasLtMatmul(blas::Handle handle, blas::Description description, const void* alpha,
                          const void* a, blas::Layout a_layout, const void* b,
                          blas::Layout b_layout, const void* beta, const void* c,
                          blas::Layout c_layout, void* d, blas::Layout d_layout,
                          const blas::Algorithm* algorithm, void* workspace, size_t workspace_bytes,
                          cuda::Stream stream) {
  static decltype(blas::Api::multiply) real = nullptr;
  if (real == nullptr) Real("libcublasLt.so.13", "cublasLtMatmul", &real);
  const Matrix first = MatrixOf(a_layout);
  const Matrix second = MatrixOf(b_layout);
  const Matrix result = MatrixOf(d_layout);
  // Row-major, as the model sees it: [columns, inner] times [inner, rows].
  const uint64_t inner =
      result.rows == 0 ? 0 : static_cast<uint64_t>(first.elements()) / result.rows;
  const std::string name = "product " + std::to_string(result.columns) + " x " +
                           std::to_string(inner) + " x " + std::to_string(result.rows) +
                           (first.type == blas::Type::kBf16 ? ", bf16" : ", fp32") +
                           (result.type == first.type ? "" : " to fp32");
  const Cost cost{first.bytes() + second.bytes() + result.bytes(),
                  2 * result.elements() * static_cast<double>(inner)};
  return Calls::All().Time(name, cost, stream, [&] {
    return real(handle, description, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d,
                d_layout, algorithm, workspace, workspace_bytes, stream);
  });
}

#pragma GCC visibility pop
}

}  // namespace lockstep::gpu
