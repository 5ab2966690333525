#include "worker/trainer/cuda/check/cuda_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "worker/trainer/cuda/check/mlp.h"
#include "worker/trainer/cuda/check/mlp_reference.h"

namespace lockstep::trainer {
namespace {

constexpr float kRate = 0.5F;
constexpr double kGradientTolerance = 1e-4;
constexpr double kParameterTolerance = 1e-3;

// The largest difference, relative to the largest of `right`.
double ErrorOf(const std::vector<float>& values, const std::vector<double>& right) {
  double difference = 0;
  double largest = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(values[i]) - right[i]));
    largest = std::max(largest, std::abs(right[i]));
  }
  return difference / largest;
}

// FNV-1a over the bits, in 62 bits.
int64_t Checksum(const std::vector<float>& values) {
  uint64_t sum = 0xcbf29ce484222325ULL;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    sum = (sum ^ bits) * 0x100000001b3ULL;
  }
  return static_cast<int64_t>(sum >> 2U);
}

// One run of the check: a model on the GPU and its reference on the host, step by step.
class Check {
 public:
  Check(collectives::Communicator& all, const CudaCheckOptions& options)
      : all_(all), options_(options) {}

  Result<CudaCheckReport> Run();

 private:
  Status Begin();
  Status Step(int step);
  Status CompareRanks(const std::vector<float>& parameters);
  Status CheckFigures() const;

  collectives::Communicator& all_;
  const CudaCheckOptions& options_;
  const MlpShape shape_;
  CudaCheckReport report_;
  std::shared_ptr<const collectives::CudaDevice> device_;
  std::unique_ptr<CudaMlp> model_;
  std::vector<double> reference_;  // [parameters]
};

Status Check::Begin() {
  if (all_.memory() != collectives::Memory::kDevice)
    return Error::Invalid("the CUDA check needs NCCL, and this is " + all_.Describe());
  const auto world = static_cast<unsigned>(all_.world());
  if (options_.global_rows % world != 0 || options_.steps < 1)
    return Error::Invalid("the CUDA check needs a multiple of " + std::to_string(world) +
                          " rows and at least one step");
  report_.backend = all_.Describe();
  report_.world = all_.world();
  report_.steps = options_.steps;
  Result<std::shared_ptr<const collectives::CudaDevice>> device =
      collectives::CudaDevice::Open(options_.local_rank);
  if (!device.ok()) return device.error();
  device_ = *device;
  Result<std::unique_ptr<CudaMlp>> model =
      CudaMlp::Create(device_, shape_, options_.global_rows / world);
  if (!model.ok()) return model.error();
  model_ = std::move(*model);

  // Each rank begins with its own; only the broadcast makes them equal to the reference's.
  if (Status set =
          model_->SetParameters(MakeMlpParameters(shape_, 1 + static_cast<uint64_t>(all_.rank())));
      !set.ok())
    return set;
  const std::vector<float> first = MakeMlpParameters(shape_, 1);
  reference_.assign(first.begin(), first.end());
  return model_->BroadcastParameters(all_);
}

Status Check::Step(int step) {
  const unsigned rows = options_.global_rows / static_cast<unsigned>(all_.world());
  const uint64_t begin = static_cast<uint64_t>(step) * options_.global_rows;
  const MlpBatch own =
      MakeMlpBatch(shape_, begin + static_cast<uint64_t>(all_.rank()) * rows, rows);
  Result<double> loss = model_->ComputeGradients(own, all_);
  if (!loss.ok()) return loss.error();
  if (step == 0) report_.first_loss = *loss;
  report_.last_loss = *loss;

  std::vector<double> right;
  MlpLossAndGradient(shape_, reference_, MakeMlpBatch(shape_, begin, options_.global_rows), &right);
  if (step == 0) {
    Result<std::vector<float>> gradients = model_->gradients();
    if (!gradients.ok()) return gradients.error();
    report_.gradient_error = ErrorOf(*gradients, right);
  }
  for (size_t i = 0; i < right.size(); ++i) reference_[i] -= static_cast<double>(kRate) * right[i];
  return model_->Descend(kRate);
}

Status Check::CompareRanks(const std::vector<float>& parameters) {
  // {s, -s}: the minima of both are those of the smallest and the largest checksum.
  const int64_t own = Checksum(parameters);
  std::array<int64_t, 2> sums{own, -own};
  Result<collectives::DeviceMemory> memory =
      collectives::DeviceMemory::Allocate(device_, sizeof(sums));
  if (!memory.ok()) return memory.error();
  if (Status copied = memory->CopyFrom(sums.data(), sizeof(sums)); !copied.ok()) return copied;
  Status reduced = all_.AllReduce({memory->data(), sums.size(), collectives::DataType::kInt64},
                                  collectives::Reduction::kMin, "checksum");
  if (!reduced.ok()) return reduced;
  if (Status copied = memory->CopyTo(sums.data(), sizeof(sums)); !copied.ok()) return copied;
  if (sums[0] == -sums[1]) return {};
  return Error::Internal("the ranks' parameters differ after the same steps: " + all_.Describe() +
                         " does not give all ranks the same sums");
}

Status Check::CheckFigures() const {
  if (report_.gradient_error < kGradientTolerance &&
      report_.parameter_error < kParameterTolerance && report_.last_loss < 0.5 * report_.first_loss)
    return {};
  return Error::Internal("the GPU's numbers are wrong: " + ToJson(report_));
}

Result<CudaCheckReport> Check::Run() {
  if (Status begun = Begin(); !begun.ok()) return begun.error();
  for (int step = 0; step < options_.steps; ++step) {
    if (Status done = Step(step); !done.ok()) return done.error();
  }
  Result<std::vector<float>> parameters = model_->parameters();
  if (!parameters.ok()) return parameters.error();
  report_.parameter_error = ErrorOf(*parameters, reference_);
  if (Status same = CompareRanks(*parameters); !same.ok()) return same.error();
  if (Status right = CheckFigures(); !right.ok()) return right.error();
  return report_;
}

}  // namespace

Result<CudaCheckReport> RunCudaCheck(collectives::Communicator& all,
                                     const CudaCheckOptions& options) {
  return Check(all, options).Run();
}

std::string ToJson(const CudaCheckReport& report) {
  std::ostringstream json;
  json << std::setprecision(6) << R"({"check": "cuda", "backend": )" << std::quoted(report.backend)
       << R"(, "world": )" << report.world << R"(, "steps": )" << report.steps
       << R"(, "first_loss": )" << report.first_loss << R"(, "last_loss": )" << report.last_loss
       << R"(, "gradient_error": )" << report.gradient_error << R"(, "parameter_error": )"
       << report.parameter_error << "}";
  return json.str();
}

}  // namespace lockstep::trainer
