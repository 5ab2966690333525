#include "cli/numa/kernels.h"

namespace lockstep::numa {
namespace {

constexpr double kScalar = 3;

}  // namespace

void RunKernel(Kernel kernel, double* __restrict a, double* __restrict b, double* __restrict c,
               size_t n) {
  switch (kernel) {
    case Kernel::kCopy:
      for (size_t i = 0; i < n; ++i) c[i] = a[i];
      return;
    case Kernel::kScale:
      for (size_t i = 0; i < n; ++i) b[i] = kScalar * c[i];
      return;
    case Kernel::kAdd:
      for (size_t i = 0; i < n; ++i) c[i] = a[i] + b[i];
      return;
    case Kernel::kTriad:
      for (size_t i = 0; i < n; ++i) a[i] = b[i] + kScalar * c[i];
      return;
  }
}

Values After(int passes) {
  Values values;
  for (int pass = 0; pass < passes; ++pass) {
    values.c = values.a;
    values.b = kScalar * values.c;
    values.c = values.a + values.b;
    values.a = values.b + kScalar * values.c;
  }
  return values;
}

size_t Chase(const Line* lines, size_t start, size_t steps) {
  size_t line = start;
  for (size_t step = 0; step < steps; ++step) line = lines[line].next;
  return line;
}

}  // namespace lockstep::numa
