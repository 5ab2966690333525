#include "worker/trainer/cuda/cuda_decoder.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

namespace lockstep::trainer {

Result<std::unique_ptr<CudaDecoder>> CudaDecoder::Create(
    const std::shared_ptr<const collectives::CudaDevice>& device,
    std::shared_ptr<const BlasLibrary> library, Kernels kernels, const Shape& shape,
    std::span<const float> parameters) {
  Result<collectives::DeviceMemory> memory =
      collectives::DeviceMemory::Allocate(device, parameters.size_bytes());
  if (!memory.ok()) return memory.error();
  Status copied = memory->CopyFrom(parameters.data(), parameters.size_bytes());
  if (!copied.ok()) return copied.error();
  Result<std::unique_ptr<CudaGpt>> model =
      CudaGpt::Create(device, std::move(library), std::move(kernels),
                      {.shape = shape,
                       .batch = 1,
                       .precision = core::Precision::kFp32,
                       .parameters = static_cast<const float*>(memory->data())});
  if (!model.ok()) return model.error();
  if (Status updated = (*model)->UpdateOperands(); !updated.ok()) return updated.error();
  return std::unique_ptr<CudaDecoder>(
      new CudaDecoder(shape, std::move(*memory), std::move(*model)));
}

Result<std::span<const float>> CudaDecoder::Read(std::span<const int32_t> tokens) {
  assert(!tokens.empty());
  for (const int32_t token : tokens) {
    // As Decoder::Step.
    if (read_.size() == inputs_.size())
      read_.erase(read_.begin(), read_.end() - static_cast<ptrdiff_t>(inputs_.size() / 2));
    read_.push_back(token);
  }
  // What stands behind the last token is seen by none before it.
  std::copy(read_.begin(), read_.end(), inputs_.begin());
  const std::array<size_t, 1> last{read_.size() - 1};
  if (Status done = model_->Logits(inputs_, last, logits_); !done.ok()) return done.error();
  return std::span<const float>(logits_);
}

}  // namespace lockstep::trainer
