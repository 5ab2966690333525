// The GPT-2 decoder on a GPU, or a stage of it: forward and backward of one micro-batch, as
// model/gpt.h has them.
//
//   Result<std::unique_ptr<CudaGpt>> gpt = CudaGpt::Create(device, blas, kernels, options);
//   (*gpt)->UpdateOperands();                  // of options.parameters, once they are there
//   (*gpt)->SetBatch(inputs, targets, slot);
//   (*gpt)->Forward(loss, slot);
//   (*gpt)->Backward(gradients, [&](size_t from) { /* record an event on stream() */ }, slot, 0);
//
// All of it only enqueues, on one stream: nothing waits for the GPU but where it says so, and
// nothing is allocated after Create. The bits depend on the shape, the batch, the precision, the
// GPU's model and cuBLASLt's version, and on nothing else. Of one thread at a time.
//
// Parameters, gradients and the residual stream are fp32, flat as Parameters(shape, stage) arranges
// them; products' operands are of the precision: activations, and a copy of the parameters.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_GPT_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_GPT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "core/model/trainer.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/device/gpt_kernels.h"
#include "worker/trainer/cuda/kernels.h"
#include "worker/trainer/cuda/libraries/blas_library.h"
#include "worker/trainer/model/shape.h"
#include "worker/trainer/model/stage.h"

namespace lockstep::trainer {

struct CudaGptOptions {
  Shape shape;
  int batch = 1;  // sequences of a micro-batch (B)
  core::Precision precision = core::Precision::kBf16;
  // The master copy, in the GPU's memory; the caller's, which outlives the model. Behind what a
  // last stage owns lies its copy of wte.
  const float* parameters = nullptr;
  // Micro-batches that SetBatch takes without waiting for the first of them to be copied.
  int batches_ahead = 2;
  Stage stage = {};
  int held = 1;   // micro-batches that went forward and not yet backward, at most: slots
  int heads = 1;  // gradients of a last stage's head that lie here at a time
};

// The copy of the parameters that products read, in the GPU's memory.
struct CudaOperands {
  core::Precision precision;
  void* data;  // Bf16 or float
  gpu::OperandLayout layout;
};

class CudaGpt {
 public:
  // kInvalid, with what to choose instead, for a shape that the kernels are not made for.
  static Status Check(const Shape& shape, int batch);
  // What Create will allocate on the GPU.
  static size_t PredictBytes(const CudaGptOptions& options);

  static Result<std::unique_ptr<CudaGpt>> Create(
      const std::shared_ptr<const collectives::CudaDevice>& device,
      std::shared_ptr<const BlasLibrary> library, Kernels kernels, const CudaGptOptions& options);
  virtual ~CudaGpt() = default;
  CudaGpt(const CudaGpt&) = delete;
  CudaGpt& operator=(const CudaGpt&) = delete;

  // Of a stage whose shards several ranks have: `share` enqueues, behind what is on the stream,
  // what makes a sum over the shards here that over all, as a balanced tree over the ranks.
  virtual void ShareBy(std::function<Status(std::span<float> sum)> share) = 0;

  // The stream of everything here, and all kernels on it.
  virtual Kernels& kernels() = 0;
  virtual size_t bytes() const = 0;
  virtual CudaOperands operands() const = 0;

  // Makes the operands of the parameters as they are then.
  virtual Status UpdateOperands() = 0;
  // Those of a last stage's copy of wte alone.
  virtual Status UpdateHead() = 0;

  // inputs, targets: [B, T], each in [0, V), which may change when this returns. Inputs are the
  // first stage's, targets the last one's; those between need no batch. `slot`: one of `held`.
  virtual Status SetBatch(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                          size_t slot) = 0;

  // *loss, in the GPU's memory, becomes the mean cross entropy over B * T tokens; of a stage that
  // is not the last it stays as it is.
  virtual Status Forward(float* loss, size_t slot) = 0;

  // The gradient of the last Forward's loss in this slot, over `gradients` in the GPU's memory,
  // aligned to 16 bytes. `complete(from)` says that the work that makes gradients[from..] final is
  // enqueued, with falling `from`, the last time 0. A last stage goes backward right after it went
  // forward; its head's gradient is HeadGradient(head).
  virtual Status Backward(float* gradients, const std::function<void(size_t from)>& complete,
                          size_t slot, size_t head) = 0;

  // What stages hand each other, in the GPU's memory. [N, C]: what another stage made, before
  // Forward; what this one made, after it.
  virtual std::span<float> Entry(size_t slot) = 0;
  virtual std::span<float> Exit(size_t slot) = 0;
  // [N, C], and behind it [C], the gradient of the bias that was added last before: before Backward
  // of Exit, after it of Entry.
  virtual std::span<float> Gradient() = 0;
  // [V, C]: of a last stage that is not the first, its part of wte's gradient. The first stage
  // takes it in `gradients`, before Backward.
  virtual std::span<float> HeadGradient(size_t head) = 0;
  // V C
  virtual size_t head_count() const = 0;

  // Of `inputs`, [B, T]: the logits of the tokens `rows`, into host memory [rows, V]. Waits. What
  // Forward keeps is gone.
  virtual Status Logits(std::span<const int32_t> inputs, std::span<const size_t> rows,
                        std::span<float> logits) = 0;

 protected:
  CudaGpt() = default;
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_CUDA_GPT_H_
