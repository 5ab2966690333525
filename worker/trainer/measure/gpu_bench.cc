#include "worker/trainer/measure/gpu_bench.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/text/columns.h"
#include "base/text/json.h"
#include "base/thread.h"
#include "base/time.h"
#include "worker/measure/measure.h"
#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/libraries/blas.h"
#include "worker/trainer/cuda/libraries/gpu_monitor.h"

namespace lockstep::trainer {
namespace {

using collectives::CudaDevice;
using collectives::CudaStream;
using collectives::DeviceMemory;
using Device = std::shared_ptr<const CudaDevice>;
using Library = std::shared_ptr<const BlasLibrary>;

constexpr size_t kLeastSide = 256;  // of the matrices
constexpr size_t kMostSide = 4096;
// Larger ones are for GPUs that are done with this side sooner; all that are worth the name are.
constexpr Duration kLongProduct = milliseconds(10);
constexpr int kBatch = 16;  // products between two looks at the clock
constexpr uint16_t kOneBf16 = 0x3f80;

void AddFault(std::string fault, core::GpuFigures* figures) {
  figures->fault += (figures->fault.empty() ? "" : "; ") + std::move(fault);
}

// Matrices of ones: each element of a product is their side, a power of two, exactly.
class SquareProduct {
 public:
  static Result<std::unique_ptr<SquareProduct>> Create(const Device& device, const Library& library,
                                                       size_t side) {
    const size_t bytes = side * side * sizeof(uint16_t);
    std::vector<DeviceMemory> memory;
    for (const size_t size : {Workspace::kBytes, bytes, bytes, bytes}) {
      Result<DeviceMemory> made = DeviceMemory::Allocate(device, size);
      if (!made.ok()) return made.error();
      memory.push_back(std::move(*made));
    }
    const std::vector<uint16_t> ones(side * side, kOneBf16);
    for (DeviceMemory* matrix : {&memory[1], &memory[2]}) {
      if (Status up = matrix->CopyFrom(ones.data(), bytes); !up.ok()) return up.error();
    }
    Result<std::unique_ptr<Products>> products =
        Products::Create(device, library, {memory[0].data(), Workspace::kBytes});
    if (!products.ok()) return products.error();
    const Result<size_t> number = (*products)->Add({.kind = ProductKind::kForward,
                                                    .precision = core::Precision::kBf16,
                                                    .rows = side,
                                                    .in = side,
                                                    .out = side});
    if (!number.ok()) return number.error();
    Result<CudaStream> stream = CudaStream::Create(device);
    if (!stream.ok()) return stream.error();
    return std::unique_ptr<SquareProduct>(new SquareProduct(
        side, std::move(memory), std::move(*products), *number, std::move(*stream)));
  }

  double flop() const {
    const auto side = static_cast<double>(side_);
    return 2 * side * side * side;
  }
  // Enqueued alone.
  Status Start(int times) const {
    for (int i = 0; i < times; ++i) {
      Status run = products_->Run(
          number_,
          {.first = memory_[1].data(), .second = memory_[2].data(), .result = memory_[3].data()},
          stream_);
      if (!run.ok()) return run;
    }
    return {};
  }
  Status Finish() const { return stream_.Synchronize(); }
  Result<Duration> Once() const {
    const Time began = BootTime();
    if (Status started = Start(1); !started.ok()) return started.error();
    if (Status finished = Finish(); !finished.ok()) return finished.error();
    return BootTime() - began;
  }
  Result<bool> IsRight() const {
    std::vector<uint16_t> values(side_ * side_);
    if (Status down = memory_[3].CopyTo(values.data(), values.size() * sizeof(uint16_t));
        !down.ok()) {
      return down.error();
    }
    // bf16 is the upper half of a float.
    const auto right =
        static_cast<uint16_t>(__builtin_bit_cast(uint32_t, static_cast<float>(side_)) >> 16U);
    return std::ranges::all_of(values, [right](uint16_t value) { return value == right; });
  }

 private:
  SquareProduct(size_t side, std::vector<DeviceMemory> memory, std::unique_ptr<Products> products,
                size_t number, CudaStream stream)
      : side_(side),
        memory_(std::move(memory)),
        products_(std::move(products)),
        number_(number),
        stream_(std::move(stream)) {}

  size_t side_;
  std::vector<DeviceMemory> memory_;  // workspace, x, w, y
  std::unique_ptr<Products> products_;
  size_t number_;
  CudaStream stream_;
};

// One that takes long enough to be measured.
Result<std::unique_ptr<SquareProduct>> FittingProduct(const Device& device,
                                                      const Library& library) {
  for (size_t side = kLeastSide;; side *= 2) {
    Result<std::unique_ptr<SquareProduct>> product = SquareProduct::Create(device, library, side);
    if (!product.ok()) return product;
    if (const Result<Duration> cold = (*product)->Once(); !cold.ok()) return cold.error();
    const Result<Duration> warm = (*product)->Once();
    if (!warm.ok()) return warm.error();
    if (*warm >= kLongProduct || side == kMostSide) return product;
  }
}

void ReadClock(const GpuMonitor* monitor, core::GpuFigures* figures) {
  if (monitor == nullptr) return;
  const GpuMonitor::Health health = monitor->ReadHealth();
  figures->clock = {.hertz = 1e6 * health.clock.value_or(0),
                    .most = 1e6 * health.most_clock.value_or(0),
                    .slowed = SlowdownOf(health.slowdowns)};
}

Status Multiply(const Device& device, const Library& library, const GpuMonitor* monitor,
                core::GpuFigures* figures) {
  const Result<std::unique_ptr<SquareProduct>> product = FittingProduct(device, library);
  if (!product.ok()) return product.error();
  const Time began = BootTime();
  double done = 0;
  Duration elapsed{};
  do {
    if (Status started = (*product)->Start(kBatch); !started.ok()) return started;
    ReadClock(monitor, figures);  // while it works
    if (Status finished = (*product)->Finish(); !finished.ok()) return finished;
    done += kBatch * (*product)->flop();
    elapsed = BootTime() - began;
  } while (elapsed < kMeasureTime);
  figures->products = 1e-12 * done / InSeconds(elapsed);
  const Result<bool> right = (*product)->IsRight();
  if (!right.ok()) return right.error();
  if (!*right) AddFault("its products are wrong", figures);
  return {};
}

void AddFaults(const GpuMonitor::Health& health, core::GpuFigures* figures) {
  if (health.uncorrected > 0) {
    AddFault(std::to_string(health.uncorrected) +
                 " uncorrected errors of its memory since its driver was loaded",
             figures);
  }
  if (health.remap_failed) AddFault("a row of its memory can't be remapped", figures);
  if (health.remap_pending) AddFault("rows of its memory wait for a reset to be remapped", figures);
  if (health.retirement_pending) {
    AddFault("pages of its memory wait for a reset to be retired", figures);
  }
}

GpuRow BenchGpu(int gpu, const Result<Library>& library) {
  GpuRow row;
  row.figures.number = static_cast<uint32_t>(gpu);
  const Result<Device> device = CudaDevice::Open(gpu);
  const Result<std::string> address =
      device.ok() ? (*device)->PciAddress() : Result<std::string>(device.error());
  if (!address.ok()) {
    AddFault("it cannot be used: " + address.error().message, &row.figures);
    return row;
  }
  row.name = (*device)->name();
  row.pci_address = *address;
  const Result<GpuMonitor> monitor = GpuMonitor::Open(*address);
  if (monitor.ok()) {
    const GpuMonitor::Health health = monitor->ReadHealth();
    row.figures.number = health.index.value_or(row.figures.number);
    AddFaults(health, &row.figures);
  } else {
    row.without = monitor.error().message;
  }
  if (!library.ok()) {
    row.without = library.error().message;
    return row;
  }
  const Status multiplied =
      Multiply(*device, *library, monitor.ok() ? &*monitor : nullptr, &row.figures);
  if (!multiplied.ok()) {
    AddFault("a product failed: " + multiplied.error().message, &row.figures);
  }
  return row;
}

std::string Digits(const char* form, double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), form, value);
  return text.data();
}

}  // namespace

Result<std::vector<GpuRow>> BenchGpus() {
  const Result<std::shared_ptr<const collectives::CudaDriver>> driver =
      collectives::CudaDriver::Load();
  if (!driver.ok()) return driver.error();
  const int count = (*driver)->device_count();
  if (count == 0) return Error::NotFound("this process sees no GPU: check CUDA_VISIBLE_DEVICES");
  const Result<Library> library = BlasLibrary::Load();
  std::vector<GpuRow> rows(static_cast<size_t>(count));
  ThreadGroup threads;
  for (int gpu = 0; gpu < count; ++gpu) {
    const Status started = threads.Start(
        [gpu, &library, &rows] { rows[static_cast<size_t>(gpu)] = BenchGpu(gpu, library); });
    if (!started.ok()) return started.error();
  }
  threads.Join();
  return rows;
}

std::string ToTable(const std::vector<GpuRow>& rows) {
  std::vector<std::vector<std::string>> table = {
      {"GPU", "NAME", "ADDRESS", "PRODUCTS, TFLOP/s", "CLOCK", ""}};
  for (const GpuRow& row : rows) {
    const core::GpuFigures& figures = row.figures;
    table.push_back({std::to_string(figures.number), row.name, row.pci_address,
                     figures.products < 0 ? "?" : Digits("%.3g", figures.products),
                     core::InWords(figures.clock),
                     figures.fault.empty() ? row.without : figures.fault});
  }
  return AlignColumns(table, "");
}

std::string ToJsonLines(const std::vector<GpuRow>& rows) {
  std::string out;
  for (const GpuRow& row : rows) {
    const core::GpuFigures& figures = row.figures;
    const Json line = {{"type", "gpu"},
                       {"gpu", figures.number},
                       {"name", row.name},
                       {"pci_address", row.pci_address},
                       {"products", figures.products < 0 ? Json() : Json(figures.products)},
                       {"clock_hertz", figures.clock.hertz},
                       {"max_clock_hertz", figures.clock.most},
                       {"slowed", figures.clock.slowed},
                       {"fault", figures.fault},
                       {"without", row.without}};
    out += DumpJson(line) + "\n";
  }
  return out;
}

}  // namespace lockstep::trainer
