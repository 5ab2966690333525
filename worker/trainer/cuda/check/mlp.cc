#include "worker/trainer/cuda/check/mlp.h"

#include <numeric>
#include <optional>
#include <utility>

#include "worker/trainer/cuda/device/mlp_kernels.h"

namespace lockstep::trainer {
namespace {

using collectives::DataType;
using collectives::DeviceMemory;
using collectives::Reduction;

// Launches until the first failure, then says which.
class Sequence {
 public:
  explicit Sequence(Kernels* kernels) : kernels_(kernels) {}

  template <typename Arguments>
  Sequence& Run(const Arguments& arguments) {
    if (status_.ok()) status_ = kernels_->Launch(arguments);
    return *this;
  }
  const Status& status() const { return status_; }

 private:
  Kernels* kernels_;
  Status status_;
};

// Allocates until the first failure.
class Allocator {
 public:
  explicit Allocator(std::shared_ptr<const collectives::CudaDevice> device)
      : device_(std::move(device)) {}

  // Of `count` floats, zero; empty after a failure.
  std::optional<DeviceMemory> Floats(size_t count) {
    if (!status_.ok()) return std::nullopt;
    Result<DeviceMemory> memory = DeviceMemory::Allocate(device_, count * sizeof(float));
    status_ = memory.ok() ? memory->Clear() : Status(memory.error());
    if (!status_.ok()) return std::nullopt;
    return std::move(*memory);
  }
  const Status& status() const { return status_; }

 private:
  std::shared_ptr<const collectives::CudaDevice> device_;
  Status status_;
};

float* Floats(const DeviceMemory& memory) { return static_cast<float*>(memory.data()); }

Result<std::vector<float>> ToHost(const DeviceMemory& memory) {
  std::vector<float> values(memory.size() / sizeof(float));
  if (Status copied = memory.CopyTo(values.data(), memory.size()); !copied.ok())
    return copied.error();
  return values;
}

}  // namespace

Result<std::unique_ptr<CudaMlp>> CudaMlp::Create(
    const std::shared_ptr<const collectives::CudaDevice>& device, const MlpShape& shape,
    unsigned rows) {
  Result<Kernels> kernels = Kernels::Load(device);
  if (!kernels.ok()) return kernels.error();
  Allocator allocate(device);
  auto parameters = allocate.Floats(shape.parameters());
  auto gradients = allocate.Floats(shape.parameters());
  auto x = allocate.Floats(size_t{rows} * shape.in);
  auto target = allocate.Floats(size_t{rows} * shape.out);
  auto h = allocate.Floats(size_t{rows} * shape.hidden);
  auto dh = allocate.Floats(size_t{rows} * shape.hidden);
  auto y = allocate.Floats(size_t{rows} * shape.out);
  auto dy = allocate.Floats(size_t{rows} * shape.out);
  auto squares = allocate.Floats(size_t{rows} * shape.out);
  auto loss = allocate.Floats(1);
  if (!allocate.status().ok()) return allocate.status().error();
  Buffers buffers{std::move(*parameters), std::move(*gradients), std::move(*x), std::move(*target),
                  std::move(*h),          std::move(*dh),        std::move(*y), std::move(*dy),
                  std::move(*squares),    std::move(*loss)};
  std::unique_ptr<CudaMlp> model(new CudaMlp(std::move(*kernels), std::move(buffers), shape, rows));
  if (Status warm = model->WarmUp(); !warm.ok()) return warm.error();
  return model;
}

// The driver may load a kernel at its first launch, and wait for the device with it: not while a
// collective runs.
Status CudaMlp::WarmUp() {
  if (Status done = Forward(0); !done.ok()) return done;
  if (Status done = BackwardOutput(); !done.ok()) return done;
  if (Status done = BackwardHidden(); !done.ok()) return done;
  return Descend(0);
}

float* CudaMlp::Parameter(unsigned offset) const { return Floats(buffers_.parameters) + offset; }
float* CudaMlp::Gradient(unsigned offset) const { return Floats(buffers_.gradients) + offset; }

Status CudaMlp::SetParameters(const std::vector<float>& values) {
  return buffers_.parameters.CopyFrom(values.data(), values.size() * sizeof(float));
}
Result<std::vector<float>> CudaMlp::parameters() const { return ToHost(buffers_.parameters); }
Result<std::vector<float>> CudaMlp::gradients() const { return ToHost(buffers_.gradients); }

Status CudaMlp::BroadcastParameters(collectives::Communicator& all) {
  return all.Broadcast({Parameter(0), shape_.parameters(), DataType::kFloat32}, 0, "parameters");
}

Result<double> CudaMlp::ComputeGradients(const MlpBatch& batch, collectives::Communicator& all) {
  if (batch.rows != rows_)
    return Error::Invalid("a batch of " + std::to_string(batch.rows) + " rows for a model of " +
                          std::to_string(rows_));
  if (Status copied = buffers_.x.CopyFrom(batch.x.data(), batch.x.size() * sizeof(float));
      !copied.ok())
    return copied.error();
  if (Status copied =
          buffers_.target.CopyFrom(batch.target.data(), batch.target.size() * sizeof(float));
      !copied.ok())
    return copied.error();
  const auto outputs = static_cast<float>(rows_ * shape_.out) * static_cast<float>(all.world());
  if (Status done = Forward(1.0F / outputs); !done.ok()) return done.error();

  // A bucket is handed over when its kernels are done; the next one's run meanwhile.
  if (Status done = BackwardOutput(); !done.ok()) return done.error();
  collectives::Work first = all.AllReduceAsync({Gradient(0), shape_.w1(), DataType::kFloat32},
                                               Reduction::kSum, "bucket 0");
  if (Status done = BackwardHidden(); !done.ok()) return done.error();
  collectives::Work second = all.AllReduceAsync(
      {Gradient(shape_.w1()), shape_.parameters() - shape_.w1(), DataType::kFloat32},
      Reduction::kSum, "bucket 1");
  if (Status done = first.Wait(); !done.ok()) return done.error();
  if (Status done = second.Wait(); !done.ok()) return done.error();
  return ReduceLoss(all);
}

Status CudaMlp::Forward(float scale) {
  const unsigned n = rows_;
  float* h = Floats(buffers_.h);
  float* y = Floats(buffers_.y);
  const float* target = Floats(buffers_.target);
  float* squares = Floats(buffers_.squares);
  float* dy = Floats(buffers_.dy);
  return Sequence(&kernels_)
      .Run(gpu::LinearForward{Floats(buffers_.x), Parameter(shape_.w1()), Parameter(shape_.b1()), h,
                              n, shape_.in, shape_.hidden})
      .Run(gpu::TanhForward{h, n * shape_.hidden})
      .Run(gpu::LinearForward{h, Parameter(shape_.w2()), Parameter(shape_.b2()), y, n,
                              shape_.hidden, shape_.out})
      .Run(gpu::SquaredError{y, target, squares, dy, scale, n * shape_.out})
      .status();
}

Status CudaMlp::BackwardOutput() {
  const unsigned n = rows_;
  const float* dy = Floats(buffers_.dy);
  Status launched = Sequence(&kernels_)
                        .Run(gpu::LinearWeight{dy, Floats(buffers_.h), Gradient(shape_.w2()), n,
                                               shape_.hidden, shape_.out})
                        .Run(gpu::LinearBias{dy, Gradient(shape_.b2()), n, shape_.out})
                        .status();
  return launched.ok() ? kernels_.Synchronize() : launched;
}

Status CudaMlp::BackwardHidden() {
  const unsigned n = rows_;
  float* dh = Floats(buffers_.dh);
  Status launched = Sequence(&kernels_)
                        .Run(gpu::LinearInput{Floats(buffers_.dy), Parameter(shape_.w2()), dh, n,
                                              shape_.hidden, shape_.out})
                        .Run(gpu::TanhBackward{Floats(buffers_.h), dh, n * shape_.hidden})
                        .Run(gpu::LinearWeight{dh, Floats(buffers_.x), Gradient(shape_.w1()), n,
                                               shape_.in, shape_.hidden})
                        .Run(gpu::LinearBias{dh, Gradient(shape_.b1()), n, shape_.hidden})
                        .status();
  return launched.ok() ? kernels_.Synchronize() : launched;
}

Result<double> CudaMlp::ReduceLoss(collectives::Communicator& all) {
  Result<std::vector<float>> squares = ToHost(buffers_.squares);
  if (!squares.ok()) return squares.error();
  auto loss = static_cast<float>(std::accumulate(squares->begin(), squares->end(), 0.0));
  if (Status copied = buffers_.loss.CopyFrom(&loss, sizeof(loss)); !copied.ok())
    return copied.error();
  const Status reduced =
      all.AllReduce({buffers_.loss.data(), 1, DataType::kFloat32}, Reduction::kSum, "loss");
  if (!reduced.ok()) return reduced.error();
  if (Status copied = buffers_.loss.CopyTo(&loss, sizeof(loss)); !copied.ok())
    return copied.error();
  return static_cast<double>(loss);
}

Status CudaMlp::Descend(float rate) {
  const unsigned count = shape_.parameters();
  if (Status launched = kernels_.Launch(gpu::Descend{Parameter(0), Gradient(0), rate, count});
      !launched.ok())
    return launched;
  return kernels_.Synchronize();
}

}  // namespace lockstep::trainer
