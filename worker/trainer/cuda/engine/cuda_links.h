// CudaLinks: what a stage of a pipeline on a GPU takes from its neighbours, and hands on to them,
// around the passes of 1F1B (cuda_engine.cc); and, within them, the sums over the shards that other
// ranks of the stage have. A whole model has neither, and nothing is done.
//
// All of it only enqueues: a pass begins when what it takes is there, and no host waits. All
// operations of NCCL follow each other in one stream, in which a send waits for its receiver. So
// two neighbours that hand each other something at the same time, one an activation and the other a
// gradient, do it in one operation, or each would wait for the other to receive first:
//
//   stage 0   F0 send      F1 [send, receive]  B0   F2 [send, receive]  B1   receive B2
//   stage 1      receive F0 B0 [send, receive]   F1 B1 [send, receive]   F2 B2 send
//
// The head's part of wte's gradient goes from the last stage to the first for each micro-batch
// (docs/adr/024-pipelines.md), some micro-batches later: see HeldHeads.
#ifndef LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_LINKS_H_
#define LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_LINKS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/cuda_gpt.h"
#include "worker/trainer/engine/mesh.h"

namespace lockstep::trainer {

class CudaLinks {
 public:
  // `mine`: micro-batches of a step. `model`, of the mesh's stage, and `all` outlive this; the
  // model makes no pass without it.
  static Result<std::unique_ptr<CudaLinks>> Create(
      const std::shared_ptr<const collectives::CudaDevice>& device, const Mesh& mesh, int mine,
      CudaGpt& model, collectives::Communicator& all);

  // Around the passes of micro-batch i. `dwte`, of the first stage: where its gradient of wte will
  // be, of which it gets the head's part.
  Status BeforeForward(int i);
  Status AfterForward(int i);
  Status BeforeBackward(int i, float* dwte);
  Status AfterBackward(int i);
  // At the end of a step: the first stage's wte becomes the last one's head. `wte` is where it lies
  // here, in either.
  Status HandOnHead(float* wte);
  // Around a forward pass alone, in slot 0.
  Status TakeEntry();
  Status HandOnExit();

  // When what was enqueued is done: whether it went well.
  Status Finish();

 private:
  CudaLinks(const Mesh& mesh, int mine, CudaGpt& model, collectives::Communicator& all,
            std::vector<collectives::CudaEvent> events, collectives::CudaEvent summed);
  size_t SlotOf(int i) const { return static_cast<size_t>(i % held_); }
  // Whether the gradient that micro-batch i takes came with an activation's sending.
  bool CameWithSending(int i) const { return joined_ && i + held_ - 1 < mine_; }
  // Sends `out` and receives `in`, either of which may be empty, once all is done that is enqueued.
  Status Pass(std::span<const float> out, std::span<float> in, int stage, const char* tag,
              collectives::Work* work = nullptr);
  Status SendHead(int i);
  Status ShareSum(std::span<float> sum);
  // What is enqueued next waits for it.
  Status Await(collectives::Work& work) { return work.MakeWait(model_.kernels().stream()); }

  const Mesh mesh_;
  const Stage stage_;
  const int mine_;
  const int held_;
  const int heads_;    // HeldHeads
  const bool joined_;  // with the stage behind: it holds fewer, so its gradients come meanwhile
  CudaGpt& model_;
  collectives::Communicator& all_;
  std::vector<collectives::CudaEvent> events_;  // one for each of a step's operations
  collectives::CudaEvent summed_;               // the shards here, before those of other ranks
  std::vector<collectives::Work> works_;        // of the step
  collectives::Work share_;                     // the last sum over shards
  collectives::Work entry_;                     // of these, what brings the next Entry
  collectives::Work gradient_;                  // and the next Gradient
  std::vector<collectives::Work> sent_heads_;   // [heads], what sends them
};

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_CUDA_ENGINE_CUDA_LINKS_H_
