#include "worker/trainer/collectives/group/cuda_bench.h"

#include <cstddef>
#include <map>
#include <utility>

#include "worker/trainer/collectives/cuda/cuda.h"

namespace lockstep::collectives {
namespace {

class BenchDeviceMemory final : public BenchMemory {
 public:
  explicit BenchDeviceMemory(std::shared_ptr<const CudaDevice> device)
      : device_(std::move(device)) {}

  Result<void*> Allocate(size_t bytes) override {
    Result<DeviceMemory> block = DeviceMemory::Allocate(device_, bytes);
    if (!block.ok()) return block.error();
    char* begin = static_cast<char*>(block->data());
    blocks_.emplace(begin, std::move(*block));
    return begin;
  }
  Status Upload(void* to, const void* from_host, size_t bytes) override {
    DeviceMemory* block = Find(to);
    if (block == nullptr) return Error::Invalid("not memory of this bench");
    return block->CopyFrom(from_host, bytes, OffsetIn(*block, to));
  }
  Status Download(void* to_host, const void* from, size_t bytes) override {
    const DeviceMemory* block = Find(from);
    if (block == nullptr) return Error::Invalid("not memory of this bench");
    return block->CopyTo(to_host, bytes, OffsetIn(*block, from));
  }

 private:
  // The block that may hold `address`.
  DeviceMemory* Find(const void* address) {
    auto next = blocks_.upper_bound(static_cast<const char*>(address));
    return next == blocks_.begin() ? nullptr : &std::prev(next)->second;
  }
  static size_t OffsetIn(const DeviceMemory& block, const void* address) {
    return static_cast<size_t>(static_cast<const char*>(address) -
                               static_cast<const char*>(block.data()));
  }

  std::shared_ptr<const CudaDevice> device_;
  std::map<const char*, DeviceMemory> blocks_;
};

}  // namespace

Result<std::unique_ptr<BenchMemory>> MakeDeviceMemory(int local_rank) {
  Result<std::shared_ptr<const CudaDevice>> device = CudaDevice::Open(local_rank);
  if (!device.ok()) return device.error();
  return std::unique_ptr<BenchMemory>(std::make_unique<BenchDeviceMemory>(std::move(*device)));
}

}  // namespace lockstep::collectives
