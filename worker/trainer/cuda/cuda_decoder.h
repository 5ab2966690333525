// CudaDecoder: a GPT-2 on a GPU for generation, in fp32. It keeps tokens, but no keys and values:
// the next token takes one pass of training's kernels over the whole context, which is little work
// for a GPU.
//
//   auto decoder = CudaDecoder::Create(device, blas, kernels, model);
//   Result<std::span<const float>> logits = (*decoder)->Read(prompt);
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_DECODER_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_DECODER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/cuda_gpt.h"
#include "worker/trainer/model/decode.h"

namespace lockstep::trainer {

class CudaDecoder final : public TokenReader {
 public:
  // `parameters`, as Parameters() arranges them, are copied. kInvalid as CudaGpt::Check; kTooLarge
  // where the GPU has too little memory.
  static Result<std::unique_ptr<CudaDecoder>> Create(
      const std::shared_ptr<const collectives::CudaDevice>& device,
      std::shared_ptr<const BlasLibrary> library, Kernels kernels, const Shape& shape,
      std::span<const float> parameters);

  void Reset() override { read_.clear(); }
  Result<std::span<const float>> Read(std::span<const int32_t> tokens) override;

 private:
  CudaDecoder(const Shape& shape, collectives::DeviceMemory parameters,
              std::unique_ptr<CudaGpt> model)
      : parameters_(std::move(parameters)),
        model_(std::move(model)),
        inputs_(static_cast<size_t>(shape.context)),
        logits_(static_cast<size_t>(shape.vocabulary)) {}

  collectives::DeviceMemory parameters_;
  std::unique_ptr<CudaGpt> model_;
  std::vector<int32_t> read_;
  std::vector<int32_t> inputs_;  // [T], read_ and what does not matter
  std::vector<float> logits_;    // [V]
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_DECODER_H_
