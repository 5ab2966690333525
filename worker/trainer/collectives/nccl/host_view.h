// HostView: a Communicator of device memory, used with host memory. What is sent goes through a
// buffer on the GPU, piece by piece; every call waits. For what is rare: checksums, the state that
// a run begins with.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_HOST_VIEW_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_HOST_VIEW_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/collectives/cuda/cuda.h"

namespace lockstep::collectives {

class HostView final : public Communicator {
 public:
  static constexpr size_t kBytes = size_t{16} << 20;  // of the buffer

  // `all` is of device memory, on `device`, and outlives this. kTooLarge as DeviceMemory::Allocate.
  static Result<std::unique_ptr<HostView>> Create(const std::shared_ptr<const CudaDevice>& device,
                                                  Communicator& all, size_t bytes = kBytes);

  int rank() const override { return all_.rank(); }
  int world() const override { return all_.world(); }
  Memory memory() const override { return Memory::kHost; }
  std::string Describe() const override { return all_.Describe(); }
  MachineNetwork network() const override { return all_.network(); }

  // Done when it returns. `after` belongs to device memory and must be null.
  Work AllReduceAsync(Span buffer, Reduction op, std::string_view tag,
                      const CudaEvent* after) override;
  Status Broadcast(Span buffer, int root, std::string_view tag) override;
  Status ReduceScatter(ConstSpan in, Span out, Reduction op, std::string_view tag) override;
  Status AllGather(ConstSpan in, Span out, std::string_view tag) override;
  Status Send(ConstSpan buffer, int peer, std::string_view tag) override;
  Status Receive(Span buffer, int peer, std::string_view tag) override;
  Status Barrier(std::string_view tag) override { return all_.Barrier(tag); }
  void Abort(std::string_view reason) override { all_.Abort(reason); }
  Result<std::string> Record(const std::string& dir) const override { return all_.Record(dir); }
  Status Finish() override { return all_.Finish(); }

 private:
  HostView(Communicator& all, DeviceMemory memory) : all_(all), memory_(std::move(memory)) {}

  // Calls `work(first, count)` for pieces of `count` elements, `width` of which stand in the
  // buffer.
  Status Pieces(size_t count, DataType type, size_t width,
                const std::function<Status(size_t first, size_t count)>& work) const;
  // `count` elements of the buffer, from element `first` on.
  Span OnDevice(size_t first, size_t count, DataType type) const;
  Status Upload(ConstSpan host, size_t from, size_t count, size_t to);
  Status Download(Span host, size_t to, size_t count, size_t from) const;

  Communicator& all_;
  DeviceMemory memory_;
};

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_NCCL_HOST_VIEW_H_
