#include "tests/system/gpu/products.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include "worker/trainer/collectives/cuda/cuda.h"
#include "worker/trainer/cuda/libraries/blas.h"
#include "worker/trainer/model/bf16.h"

namespace lockstep::gpu {
namespace {

using collectives::DeviceMemory;
using core::Precision;
using trainer::Bf16;
using trainer::ProductKind;
using trainer::ProductShape;

constexpr int kRepeats = 10;
constexpr size_t kSamples = 64;

// In [-1, 1), exact in bf16, the same everywhere.
float Number(size_t i, size_t seed) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 31U;
  return static_cast<float>(static_cast<int>(x * 0x94d049bb133111ebULL >> 57U) - 64) / 64;
}

class Check {
 public:
  explicit Check(std::shared_ptr<const collectives::CudaDevice> device)
      : device_(std::move(device)) {}

  Status Begin(size_t elements);
  Result<ProductReport> Run(const ProductShape& shape);

 private:
  static size_t Stride(const ProductShape& s) { return s.y_stride == 0 ? s.out : s.y_stride; }
  Status Fill(DeviceMemory& memory, size_t count, size_t seed, Precision precision);
  Result<float> Element(size_t i, Precision precision) const;
  Result<double> ErrorOf(const ProductShape& shape) const;

  std::shared_ptr<const collectives::CudaDevice> device_;
  std::unique_ptr<trainer::Products> products_;
  std::vector<collectives::CudaStream> stream_;
  std::vector<DeviceMemory> memory_;  // first, second, result, bias, workspace
};

Status Check::Begin(size_t elements) {
  Result<std::shared_ptr<const trainer::BlasLibrary>> library = trainer::BlasLibrary::Load();
  if (!library.ok()) return library.error();
  for (const size_t bytes :
       {elements * 4, elements * 4, elements * 4, elements, trainer::Workspace::kBytes}) {
    Result<DeviceMemory> memory = DeviceMemory::Allocate(device_, bytes);
    if (!memory.ok()) return memory.error();
    memory_.push_back(std::move(*memory));
  }
  Result<collectives::CudaStream> stream = collectives::CudaStream::Create(device_);
  if (!stream.ok()) return stream.error();
  stream_.push_back(std::move(*stream));
  Result<std::unique_ptr<trainer::Products>> products =
      trainer::Products::Create(device_, *library, {memory_[4].data(), trainer::Workspace::kBytes});
  if (!products.ok()) return products.error();
  products_ = std::move(*products);
  return {};
}

Status Check::Fill(DeviceMemory& memory, size_t count, size_t seed, Precision precision) {
  std::vector<float> fp32(precision == Precision::kFp32 ? count : 0);
  std::vector<Bf16> bf16(count - fp32.size());
  for (size_t i = 0; i < fp32.size(); ++i) fp32[i] = Number(i, seed);
  for (size_t i = 0; i < bf16.size(); ++i) bf16[i] = trainer::ToBf16(Number(i, seed));
  if (!fp32.empty()) return memory.CopyFrom(fp32.data(), count * sizeof(float));
  return memory.CopyFrom(bf16.data(), count * sizeof(Bf16));
}

Result<float> Check::Element(size_t i, Precision precision) const {
  float fp32 = 0;
  Bf16 bf16{};
  const bool wide = precision == Precision::kFp32;
  const Status copied = wide ? memory_[2].CopyTo(&fp32, sizeof(fp32), i * sizeof(fp32))
                             : memory_[2].CopyTo(&bf16, sizeof(bf16), i * sizeof(bf16));
  if (!copied.ok()) return copied.error();
  return wide ? fp32 : trainer::ToFloat(bf16);
}

// Elements spread over the result, against double precision.
Result<double> Check::ErrorOf(const ProductShape& s) const {
  const auto w = [&](size_t i, size_t o) {
    return Number(s.by_output ? o * s.in + i : i * s.out + o, 2);
  };
  const bool forward = s.kind == ProductKind::kForward;
  const bool weight = s.kind == ProductKind::kWeightGradient;
  const size_t rows = weight ? s.in : s.rows;
  const size_t columns = s.kind == ProductKind::kInputGradient ? s.in : s.out;
  double difference = 0;
  double largest = 0;
  for (size_t sample = 0; sample < kSamples; ++sample) {
    const size_t row = sample * 7919 % rows;
    const size_t column = sample == 0 ? columns - 1 : sample * 104729 % columns;
    double right = forward && s.bias ? static_cast<double>(Number(column, 4)) : 0;
    const size_t inner = forward ? s.in : weight ? s.rows : s.out;
    for (size_t k = 0; k < inner; ++k) {
      const float a =
          weight ? Number(k * s.in + row, 1) : Number(row * (forward ? s.in : Stride(s)) + k, 1);
      const float b = forward  ? w(k, column)
                      : weight ? Number(k * Stride(s) + column, 2)
                               : w(column, k);
      right += static_cast<double>(a) * static_cast<double>(b);
    }
    size_t at = row * columns + column;
    if (forward) at = row * Stride(s) + column;
    if (weight && s.by_output) at = column * s.in + row;
    const Result<float> got = Element(at, weight ? Precision::kFp32 : s.precision);
    if (!got.ok()) return got.error();
    difference = std::max(difference, std::abs(static_cast<double>(*got) - right));
    largest = std::max(largest, std::abs(right));
  }
  return difference / largest;
}

Result<ProductReport> Check::Run(const ProductShape& s) {
  const Result<size_t> product = products_->Add(s);
  if (!product.ok()) return product.error();
  const bool weight = s.kind == ProductKind::kWeightGradient;
  const size_t x = s.rows * s.in;
  const size_t y = s.rows * Stride(s);
  const size_t w = s.in * s.out;
  const bool dx = s.kind == ProductKind::kInputGradient;
  if (Status set = Fill(memory_[0], dx ? y : x, 1, s.precision); !set.ok()) return set.error();
  if (Status set = Fill(memory_[1], weight ? y : w, 2, s.precision); !set.ok()) return set.error();
  if (Status set = Fill(memory_[3], s.out, 4, s.precision); !set.ok()) return set.error();
  const size_t result = weight ? w * 4 : (dx ? x : y) * (s.precision == Precision::kBf16 ? 2 : 4);
  std::vector<char> first(result);
  std::vector<char> last(result);
  const auto run = [&]() -> Status {
    return products_->Run(
        *product, {memory_[0].data(), memory_[1].data(), memory_[2].data(), memory_[3].data()},
        stream_[0]);
  };
  // The first loads the kernel.
  if (Status done = run(); !done.ok()) return done.error();
  if (Status done = stream_[0].Synchronize(); !done.ok()) return done.error();
  if (Status got = memory_[2].CopyTo(first.data(), result); !got.ok()) return got.error();
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeats; ++i) {
    if (Status done = run(); !done.ok()) return done.error();
  }
  if (Status done = stream_[0].Synchronize(); !done.ok()) return done.error();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  if (Status got = memory_[2].CopyTo(last.data(), result); !got.ok()) return got.error();

  const Result<double> error = ErrorOf(s);
  if (!error.ok()) return error.error();
  const double work = 2.0 * static_cast<double>(s.rows) * static_cast<double>(w) * kRepeats;
  ProductReport report{.product = ToString(s),
                       .error = *error,
                       .same_bits = first == last,
                       .tflops = work / took.count() / 1e12};
  const bool bf16_result = s.precision == Precision::kBf16 && !weight;
  report.good = report.same_bits && report.error < (bf16_result ? 5e-3 : 1e-5);
  return report;
}

}  // namespace

Result<std::vector<ProductReport>> CheckProducts(int local_rank, bool fake) {
  Result<std::shared_ptr<const collectives::CudaDevice>> device =
      collectives::CudaDevice::Open(local_rank);
  if (!device.ok()) return device.error();
  const size_t c = fake ? 64 : 768;
  const size_t rows = fake ? 64 : size_t{8} * 1024;
  const size_t vocabulary = fake ? 500 : 50257;
  const size_t padded = (vocabulary + 127) / 128 * 128;
  Check check(*device);
  if (Status begun = check.Begin(std::max(rows * padded, padded * c)); !begun.ok())
    return begun.error();
  std::vector<ProductReport> reports;
  for (const Precision precision : {Precision::kBf16, Precision::kFp32}) {
    std::vector<ProductShape> shapes;
    for (const auto& [in, out] :
         {std::pair(c, 3 * c), std::pair(c, c), std::pair(c, 4 * c), std::pair(4 * c, c)}) {
      shapes.push_back({ProductKind::kForward, precision, rows, in, out});
      shapes.push_back({ProductKind::kForward, precision, rows, in, out, 0, false, true});
      shapes.push_back({ProductKind::kInputGradient, precision, rows, in, out});
      shapes.push_back({ProductKind::kWeightGradient, precision, rows, in, out});
    }
    shapes.push_back({ProductKind::kForward, precision, rows, c, padded, 0, true});
    shapes.push_back({ProductKind::kInputGradient, precision, rows, c, padded, 0, true});
    shapes.push_back({ProductKind::kWeightGradient, precision, rows, c, vocabulary, padded, true});
    for (const ProductShape& shape : shapes) {
      Result<ProductReport> report = check.Run(shape);
      if (!report.ok()) return report.error();
      reports.push_back(std::move(*report));
    }
  }
  return reports;
}

}  // namespace lockstep::gpu
