#include "worker/trainer/cuda/cuda_gpt.h"

#include <cassert>
#include <string>
#include <utility>

#include "worker/trainer/cuda/cuda_network.h"

namespace lockstep::trainer {

using collectives::CudaDevice;
using core::Precision;

Status CudaGpt::Check(const Shape& shape, int batch) {
  const auto refuse = [&shape](const std::string& why) {
    return Error::Invalid("a model of " + ToString(shape) + " does not run on a GPU: " + why);
  };
  if (shape.heads < 1 || shape.width != shape.heads * static_cast<int>(gpu::kHeadWidth))
    return refuse("heads must be 64 wide: set heads to width / 64");
  if (static_cast<unsigned>(shape.width) > gpu::kMaxWidth)
    return refuse("choose a width up to " + std::to_string(gpu::kMaxWidth));
  if (batch < 1 || shape.context < 1 || shape.vocabulary < 1)
    return refuse("the batch, the context and the vocabulary must be at least 1");
  // What the kernels count in 32 bits, and the blocks of a launch's second dimension.
  if (int64_t{batch} * shape.heads > 65535 ||
      int64_t{batch} * shape.context > int64_t{65535} * gpu::kBiasRows)
    return refuse("choose a smaller batch");
  return {};
}

size_t CudaGpt::PredictBytes(const CudaGptOptions& options) {
  return options.precision == Precision::kBf16 ? CudaNetwork<Bf16>::PredictBytes(options)
                                               : CudaNetwork<float>::PredictBytes(options);
}

Result<std::unique_ptr<CudaGpt>> CudaGpt::Create(const std::shared_ptr<const CudaDevice>& device,
                                                 std::shared_ptr<const BlasLibrary> library,
                                                 Kernels kernels, const CudaGptOptions& options) {
  if (Status checked = Check(options.shape, options.batch); !checked.ok()) return checked.error();
  assert(options.parameters != nullptr);
  return options.precision == Precision::kBf16
             ? CudaNetwork<Bf16>::Create(device, std::move(library), std::move(kernels), options)
             : CudaNetwork<float>::Create(device, std::move(library), std::move(kernels), options);
}

}  // namespace lockstep::trainer
