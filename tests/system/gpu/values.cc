#include "tests/system/gpu/values.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/collectives/cuda/cuda.h"

namespace lockstep::gpu {
namespace {

using collectives::Communicator;
using collectives::CudaDevice;
using collectives::DataType;
using collectives::DeviceMemory;
using collectives::Reduction;
using collectives::Span;

// Small whole numbers: their sums are exact in any order.
int Pattern(int rank, size_t i) {
  return static_cast<int>((i * 7 + static_cast<size_t>(rank) * 13) % 31);
}

class Values {
 public:
  Values(Communicator& all, std::shared_ptr<const CudaDevice> device, size_t count)
      : all_(all), device_(std::move(device)), count_(count) {}

  Result<ValuesReport> Run() {
    const std::vector<std::function<Status()>> steps{
        [this] { return AllReduce<float>(DataType::kFloat32, Reduction::kSum); },
        [this] { return AllReduce<float>(DataType::kFloat32, Reduction::kMin); },
        [this] { return AllReduce<float>(DataType::kFloat32, Reduction::kMax); },
        [this] { return AllReduce<int64_t>(DataType::kInt64, Reduction::kSum); },
        [this] { return Broadcast(); },
        [this] { return ReduceScatter(); },
        [this] { return AllGather(); },
        [this] { return Ring(); },
        [this] { return all_.Barrier("values"); },
    };
    for (const std::function<Status()>& step : steps) {
      if (Status done = step(); !done.ok()) return done.error();
      ++report_.operations;
    }
    return report_;
  }

 private:
  // Runs `operation` on device memory that begins as `before`, and compares it with `right`.
  template <typename T>
  Status Expect(const std::vector<T>& before, const std::vector<T>& right,
                const std::function<Status(T*)>& operation) {
    Result<DeviceMemory> memory = DeviceMemory::Allocate(device_, before.size() * sizeof(T));
    if (!memory.ok()) return memory.error();
    if (Status copied = memory->CopyFrom(before.data(), memory->size()); !copied.ok())
      return copied;
    if (Status done = operation(static_cast<T*>(memory->data())); !done.ok()) return done;
    std::vector<T> after(before.size());
    if (Status copied = memory->CopyTo(after.data(), memory->size()); !copied.ok()) return copied;
    for (size_t i = 0; i < right.size(); ++i) report_.wrong += after[i] == right[i] ? 0 : 1;
    return {};
  }

  int Combined(Reduction op, size_t i) const {
    int combined = Pattern(0, i);
    for (int rank = 1; rank < all_.world(); ++rank) {
      const int value = Pattern(rank, i);
      if (op == Reduction::kSum) combined += value;
      if (op == Reduction::kMin) combined = std::min(combined, value);
      if (op == Reduction::kMax) combined = std::max(combined, value);
    }
    return combined;
  }

  template <typename T>
  Status AllReduce(DataType type, Reduction op) {
    std::vector<T> before(count_);
    std::vector<T> right(count_);
    for (size_t i = 0; i < count_; ++i) {
      before[i] = static_cast<T>(Pattern(all_.rank(), i));
      right[i] = static_cast<T>(Combined(op, i));
    }
    return Expect<T>(before, right,
                     [&](T* data) { return all_.AllReduce({data, count_, type}, op, "values"); });
  }

  Status Broadcast() {
    const int root = all_.world() - 1;
    std::vector<uint8_t> before(count_);
    std::vector<uint8_t> right(count_);
    for (size_t i = 0; i < count_; ++i) {
      before[i] = static_cast<uint8_t>(Pattern(all_.rank(), i));
      right[i] = static_cast<uint8_t>(Pattern(root, i));
    }
    return Expect<uint8_t>(before, right, [&](uint8_t* data) {
      return all_.Broadcast({data, count_, DataType::kByte}, root, "values");
    });
  }

  Status ReduceScatter() {
    const auto world = static_cast<size_t>(all_.world());
    const size_t first = count_ * static_cast<size_t>(all_.rank());
    // [world * count] in, [count] out behind it
    std::vector<float> before(count_ * (world + 1));
    std::vector<float> right(before.size());
    for (size_t i = 0; i < count_ * world; ++i)
      right[i] = before[i] = static_cast<float>(Pattern(all_.rank(), i));
    for (size_t i = 0; i < count_; ++i)
      right[count_ * world + i] = static_cast<float>(Combined(Reduction::kSum, first + i));
    return Expect<float>(before, right, [&](float* data) {
      const Span in{data, count_ * world, DataType::kFloat32};
      const Span out{data + count_ * world, count_, DataType::kFloat32};
      return all_.ReduceScatter(in, out, Reduction::kSum, "values");
    });
  }

  Status AllGather() {
    const auto world = static_cast<size_t>(all_.world());
    const auto self = static_cast<size_t>(all_.rank());
    std::vector<float> before(count_ * world);
    std::vector<float> right(count_ * world);
    for (size_t i = 0; i < count_ * world; ++i) {
      right[i] = static_cast<float>(Pattern(static_cast<int>(i / count_), i % count_));
      if (i / count_ == self) before[i] = right[i];
    }
    return Expect<float>(before, right, [&](float* data) {
      const Span in{data + self * count_, count_, DataType::kFloat32};
      return all_.AllGather(in, {data, count_ * world, DataType::kFloat32}, "values");
    });
  }

  // To the next rank, from the one before; rank 0 begins by receiving.
  Status Ring() {
    if (all_.world() == 1) return {};
    const int next = (all_.rank() + 1) % all_.world();
    const int previous = (all_.rank() + all_.world() - 1) % all_.world();
    // [count] out, [count] in behind it
    std::vector<int64_t> before(2 * count_);
    std::vector<int64_t> right(2 * count_);
    for (size_t i = 0; i < count_; ++i) {
      right[i] = before[i] = Pattern(all_.rank(), i);
      right[count_ + i] = Pattern(previous, i);
    }
    return Expect<int64_t>(before, right, [&](int64_t* data) -> Status {
      const Span out{data, count_, DataType::kInt64};
      const Span in{data + count_, count_, DataType::kInt64};
      if (all_.rank() == 0) {
        if (Status got = all_.Receive(in, previous, "values"); !got.ok()) return got;
        return all_.Send(out, next, "values");
      }
      if (Status sent = all_.Send(out, next, "values"); !sent.ok()) return sent;
      return all_.Receive(in, previous, "values");
    });
  }

  Communicator& all_;
  std::shared_ptr<const CudaDevice> device_;
  size_t count_;
  ValuesReport report_;
};

}  // namespace

Result<ValuesReport> CheckValues(Communicator& all, int local_rank, size_t count) {
  Result<std::shared_ptr<const CudaDevice>> device = CudaDevice::Open(local_rank);
  if (!device.ok()) return device.error();
  return Values(all, *device, count).Run();
}

}  // namespace lockstep::gpu
