// What is timed: STREAM's four kernels (J. McCalpin, "Memory Bandwidth and Machine Balance in
// Current High Performance Computers", 1995) and a chase of pointers.
#ifndef LOCKSTEP_CLI_NUMA_KERNELS_H_
#define LOCKSTEP_CLI_NUMA_KERNELS_H_

#include <array>
#include <cstddef>

namespace lockstep::numa {

enum class Kernel { kCopy, kScale, kAdd, kTriad };

// Bytes for each element of the arrays. `counted` is STREAM's: what the loop reads and writes.
// `moved` is what the memory carries, for a plain store reads the line that it writes first
// (write-allocate).
struct KernelInfo {
  Kernel kernel;
  const char* name;
  int counted;
  int moved;
};
inline constexpr std::array<KernelInfo, 4> kKernels = {{{Kernel::kCopy, "copy", 16, 24},
                                                        {Kernel::kScale, "scale", 16, 24},
                                                        {Kernel::kAdd, "add", 24, 32},
                                                        {Kernel::kTriad, "triad", 24, 32}}};

// Copy c = a, Scale b = 3 c, Add c = a + b, Triad a = b + 3 c, on `n` elements that don't overlap.
void RunKernel(Kernel kernel, double* a, double* b, double* c, size_t n);

// What STREAM begins with, and what each array holds after `passes` of the four kernels in order.
struct Values {
  double a = 1, b = 2, c = 0;
};
Values After(int passes);

// Lines of 64 bytes, each with the number of the next. One round visits each of `lines` (a power of
// two, >= 4) once, in the order of a linear congruential generator, which no prefetcher foresees.
struct alignas(64) Line {
  size_t next;
};
// The number behind `line` in the round.
constexpr size_t NextLine(size_t line, size_t lines) {
  return (line * 2862933555777941757U + 3037000493U) & (lines - 1);
}
// Follows the numbers `steps` times from `start`, and returns where it ends.
size_t Chase(const Line* lines, size_t start, size_t steps);

}  // namespace lockstep::numa

#endif  // LOCKSTEP_CLI_NUMA_KERNELS_H_
