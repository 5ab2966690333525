// The products of a model by the real cuBLASLt, on a GPU: whether it has an algorithm for each that
// keeps order, whether they are right and the same in every run, and how fast they are.
#ifndef LOCKSTEP_TESTS_GPU_PRODUCTS_H_
#define LOCKSTEP_TESTS_GPU_PRODUCTS_H_

#include <string>
#include <vector>

#include "base/result.h"

namespace lockstep::gpu {

struct ProductReport {
  std::string product;
  double error = 0;  // of some elements, relative to the largest of them
  bool same_bits = false;
  double tflops = 0;
  bool good = false;
};

// Those of GPT-2 124M, in bf16 and fp32, of 8 sequences of 1024 tokens; on the fakes of less.
Result<std::vector<ProductReport>> CheckProducts(int local_rank, bool fake);

}  // namespace lockstep::gpu

#endif  // LOCKSTEP_TESTS_GPU_PRODUCTS_H_
