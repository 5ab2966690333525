// The kernels that the fake GPU can run: Lockstep's own sources, compiled for the host.
#ifndef LOCKSTEP_TESTS_FAKE_NCCL_HOST_KERNELS_H_
#define LOCKSTEP_TESTS_FAKE_NCCL_HOST_KERNELS_H_

#include <functional>
#include <string_view>

namespace lockstep::fake_nccl {

struct HostKernel {
  std::string_view name;
  // Takes the values that cuLaunchKernel's `parameters` point to; the result runs all threads of
  // the grid, one after the other.
  std::function<void()> (*bind)(void** parameters, unsigned grid, unsigned block);
};

// Null if there is no kernel of this name.
const HostKernel* FindHostKernel(std::string_view name);

}  // namespace lockstep::fake_nccl

#endif  // LOCKSTEP_TESTS_FAKE_NCCL_HOST_KERNELS_H_
