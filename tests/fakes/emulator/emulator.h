// Runs the GPU's kernels on the host: gpu.h's other half. A block's threads are fibers of the
// calling thread and change hands only where they wait for each other. A seed says in which order
// threads and blocks run, so that a barrier that is missing shows as other bits, or as NaN: shared
// memory begins as that.
//
//   std::string wrong = emulator::Run("gelu_bf16", &arguments, shape, {.seed = 3});
#ifndef LOCKSTEP_TESTS_EMULATOR_EMULATOR_H_
#define LOCKSTEP_TESTS_EMULATOR_EMULATOR_H_

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/device/gpu.h"

namespace lockstep::emulator {

// A barrier or a wait in a kernel's source.
struct Site {
  std::string_view file;
  unsigned line = 0;
  unsigned column = 0;

  friend auto operator<=>(const Site&, const Site&) = default;
};

struct Options {
  // 0: threads and blocks in their order; 1: the last first; others: at random. With an odd one an
  // asynchronous copy lands at once, with an even one no sooner than it is waited for.
  unsigned seed = 0;
  const Site* without = nullptr;       // this barrier or wait is left out
  std::vector<Site>* sites = nullptr;  // gets those that were met, once each
};

// Null if there is no such kernel.
const trainer::gpu::HostKernel* Find(std::string_view name);

// All blocks, one after the other. Returns what went wrong, or nothing: threads that wait for ever
// and where, lanes of a warp that are not together, an address that is not aligned, a launch that
// the kernel was not made for.
std::string Run(const trainer::gpu::HostKernel& kernel, const void* arguments,
                const trainer::gpu::LaunchShape& shape, const Options& options);

// For a kernel's thread: ends the launch for good, with `what` as what went wrong. A literal,
// because what the caller has on its stack is never freed.
[[noreturn]] void Fail(const char* what);

template <typename Arguments>
std::string Run(const Arguments& arguments, const Options& options) {
  return Run(*Find(Arguments::kName), &arguments, arguments.shape(), options);
}

}  // namespace lockstep::emulator

#endif  // LOCKSTEP_TESTS_EMULATOR_EMULATOR_H_
