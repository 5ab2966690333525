#include "tests/fake_nccl/host_kernels.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <tuple>
#include <utility>

namespace lockstep::fake_nccl {
namespace {

// What CUDA gives every thread of a grid; one after the other has this thread's.
struct Index {
  unsigned x = 0;
};
thread_local Index blockIdx;
thread_local Index blockDim;
thread_local Index threadIdx;

}  // namespace
}  // namespace lockstep::fake_nccl

// NOLINTBEGIN(misc-unused-using-decls): the kernels use them
using lockstep::fake_nccl::blockDim;
using lockstep::fake_nccl::blockIdx;
using lockstep::fake_nccl::threadIdx;
// NOLINTEND(misc-unused-using-decls)
#define __global__  // NOLINT(bugprone-reserved-identifier): CUDA's own
#include "worker/trainer/cuda/mlp_kernels.cu"
#undef __global__

namespace lockstep::fake_nccl {
namespace {

template <typename... Parameters>
std::function<void()> Bind(void (*kernel)(Parameters...), void** parameters, unsigned grid,
                           unsigned block) {
  std::tuple<Parameters...> values;
  size_t next = 0;
  std::apply(
      [&](auto&... value) {
        (std::memcpy(static_cast<void*>(&value), parameters[next++], sizeof(value)), ...);
      },
      values);
  return [=] {
    blockDim.x = block;
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) std::apply(kernel, values);
    }
  };
}

template <auto kKernel>
std::function<void()> BindOne(void** parameters, unsigned grid, unsigned block) {
  return Bind(kKernel, parameters, grid, block);
}

constexpr std::array kKernels{
    HostKernel{"linear_forward", BindOne<linear_forward>},
    HostKernel{"tanh_forward", BindOne<tanh_forward>},
    HostKernel{"squared_error", BindOne<squared_error>},
    HostKernel{"linear_backward_weight", BindOne<linear_backward_weight>},
    HostKernel{"linear_backward_bias", BindOne<linear_backward_bias>},
    HostKernel{"linear_backward_input", BindOne<linear_backward_input>},
    HostKernel{"tanh_backward", BindOne<tanh_backward>},
    HostKernel{"sgd", BindOne<sgd>},
};

}  // namespace

const HostKernel* FindHostKernel(std::string_view name) {
  for (const HostKernel& kernel : kKernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

}  // namespace lockstep::fake_nccl
