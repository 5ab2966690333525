#include "worker/trainer/engine/cuda_engine.h"

#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "worker/trainer/cuda/cuda_gpt.h"
#include "worker/trainer/cuda/cuda_optimizer.h"
#include "worker/trainer/cuda/pinned_memory.h"
#include "worker/trainer/engine/buckets.h"
#include "worker/trainer/engine/gradient_tree.h"
#include "worker/trainer/model/buffers.h"

namespace lockstep::trainer {

namespace {

using collectives::CudaDevice;
using collectives::CudaEvent;
using collectives::DeviceMemory;

// Arrays in the GPU's memory begin at multiples of this many floats, which kernels ask for.
constexpr size_t kGrain = 64;

size_t Padded(size_t floats) { return BlocksOf(floats, kGrain) * kGrain; }

std::string Megabytes(size_t bytes) {
  return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
}

// Floats in the GPU's memory: the replica, and the arrays of the tree of gradients.
struct Arrays {
  static Result<Arrays> Allocate(const std::shared_ptr<const CudaDevice>& device, size_t parameters,
                                 int leaves) {
    const size_t count =
        3 * Padded(parameters) +
        static_cast<size_t>(GradientTree::Arrays(leaves)) * Padded(parameters + kTailSize);
    Result<DeviceMemory> memory = DeviceMemory::Allocate(device, count * sizeof(float));
    if (!memory.ok()) return memory.error();
    return Arrays(std::move(*memory), parameters, leaves);
  }

  CudaReplica replica() const {
    const size_t stride = Padded(parameters);
    return {.parameters = begin(), .moment1 = begin() + stride, .moment2 = begin() + 2 * stride};
  }
  std::vector<std::span<float>> gradients() const {
    std::vector<std::span<float>> arrays;
    float* next = begin() + 3 * Padded(parameters);
    for (int i = 0; i < GradientTree::Arrays(leaves); ++i) {
      arrays.emplace_back(next, parameters + kTailSize);
      next += Padded(parameters + kTailSize);
    }
    return arrays;
  }
  float* begin() const { return static_cast<float*>(memory.data()); }

  DeviceMemory memory;
  size_t parameters;
  int leaves;

 private:
  Arrays(DeviceMemory taken, size_t count, int of)
      : memory(std::move(taken)), parameters(count), leaves(of) {}
};

class CudaEngine final : public Engine {
 public:
  struct Parts {
    std::shared_ptr<const CudaDevice> device;
    Arrays arrays;
    std::unique_ptr<CudaGpt> model;
    std::unique_ptr<CudaOptimizer> optimizer;
    PinnedMemory flags;             // 0 and 1, for the tail
    DeviceMemory hashes;            // of an array's blocks
    std::vector<CudaEvent> ready;   // of each bucket: its sum on this rank is there
    std::vector<CudaEvent> stamps;  // timed: see Stamp
  };

  CudaEngine(Parts parts, const EngineOptions& options, Replica& replica,
             collectives::Communicator& all)
      : parts_(std::move(parts)),
        replica_(&replica),
        all_(&all),
        overlap_(options.sync_options.overlap),
        leaves_(options.batch.mine),
        buckets_(
            CutBuckets(replica.parameters.size() + kTailSize, options.sync_options.bucket_bytes)),
        tree_(parts_.arrays.gradients(), leaves_,
              [this](std::span<float> sum, std::span<const float> part) {
                return kernels().Launch(
                    gpu::TreeAdd{.sum = sum.data(), .part = part.data(), .count = sum.size()});
              }),
        inputs_(static_cast<size_t>(options.batch.micro_batch) *
                static_cast<size_t>(replica.shape.context)),
        targets_(inputs_.size()) {
    for (size_t i = 0; i < buckets_.size(); ++i) tags_.push_back("bucket " + std::to_string(i));
  }

  // Host to GPU.
  Status Begin() {
    const CudaReplica on_gpu = parts_.arrays.replica();
    const struct {
      const std::vector<float>& from;
      const float* to;
    } copies[] = {{replica_->parameters, on_gpu.parameters},
                  {replica_->moment1, on_gpu.moment1},
                  {replica_->moment2, on_gpu.moment2}};
    for (const auto& copy : copies) {
      Status copied = parts_.arrays.memory.CopyFrom(
          copy.from.data(), copy.from.size() * sizeof(float), OffsetOf(copy.to));
      if (!copied.ok()) return copied;
    }
    auto* flags = parts_.flags.As<float>();
    flags[0] = 0;
    flags[1] = 1;
    return parts_.model->UpdateOperands();
  }

  Result<StepResult> Step(const StepOptions& options, const ReadBatch& read) override {
    works_.clear();
    failed_ = {};
    Duration data{};
    Status summed = tree_.Sum(
        [&](int i, std::span<float> out, const Complete& complete) {
          return MicroBatch(i, i == 0 && options.stop, read, out, complete, &data);
        },
        [this](size_t from) {
          if (overlap_) Issue(from);
        });
    if (summed.ok()) Issue(0);
    if (summed.ok()) summed = failed_;
    if (!summed.ok()) return summed.error();
    return Update(options, data);
  }

  // Into the tail of an array that the next step writes anew.
  Result<float> Loss(int index, const ReadBatch& read) override {
    float* on_gpu = tree_.total().data() + replica_->parameters.size() + kTailLoss;
    float loss = 0;
    Status done = read(index, inputs_, targets_);
    if (done.ok()) done = parts_.model->SetBatch(inputs_, targets_);
    if (done.ok()) done = parts_.model->Forward(on_gpu);
    if (done.ok()) done = kernels().Synchronize();
    if (done.ok()) done = parts_.arrays.memory.CopyTo(&loss, sizeof loss, OffsetOf(on_gpu));
    if (!done.ok()) return done.error();
    return loss;
  }

  Status UpdateReplica() override {
    if (all_->rank() != 0) return {};
    const CudaReplica on_gpu = parts_.arrays.replica();
    const struct {
      std::vector<float>& to;
      const float* from;
    } copies[] = {{replica_->parameters, on_gpu.parameters},
                  {replica_->moment1, on_gpu.moment1},
                  {replica_->moment2, on_gpu.moment2}};
    for (const auto& copy : copies) {
      Status copied = parts_.arrays.memory.CopyTo(copy.to.data(), copy.to.size() * sizeof(float),
                                                  OffsetOf(copy.from));
      if (!copied.ok()) return copied;
    }
    return {};
  }

  Result<uint64_t> HashOfReplica() override {
    const CudaReplica on_gpu = parts_.arrays.replica();
    std::vector<uint64_t> hashes;
    for (const float* array : {on_gpu.parameters, on_gpu.moment1, on_gpu.moment2}) {
      const gpu::Checksum sums{.x = array,
                               .hashes = static_cast<uint64_t*>(parts_.hashes.data()),
                               .count = replica_->parameters.size()};
      std::vector<uint64_t> blocks(sums.parts());
      Status done = kernels().Launch(sums);
      if (done.ok()) done = kernels().Synchronize();
      if (done.ok()) done = parts_.hashes.CopyTo(blocks.data(), blocks.size() * sizeof(uint64_t));
      if (!done.ok()) return done.error();
      hashes.push_back(MixHashes(blocks));
    }
    return MixHashes(hashes);
  }

  // Timed events: of each micro-batch its begin, its loss and its gradient; then of the step.
  static size_t StampsOf(int leaves) { return 3 * static_cast<size_t>(leaves) + 2; }

 private:
  Kernels& kernels() { return parts_.model->kernels(); }
  const CudaEvent& Reduced() const { return parts_.stamps[StampsOf(leaves_) - 2]; }
  const CudaEvent& Updated() const { return parts_.stamps[StampsOf(leaves_) - 1]; }
  size_t OffsetOf(const float* in_arrays) const {
    return static_cast<size_t>(in_arrays - parts_.arrays.begin()) * sizeof(float);
  }

  Status MicroBatch(int i, bool stop, const ReadBatch& read, std::span<float> out,
                    const Complete& complete, Duration* data) {
    const Time began = BootTime();
    if (Status filled = read(i, inputs_, targets_); !filled.ok()) return filled;
    *data += BootTime() - began;
    const CudaEvent* stamp = &parts_.stamps[3 * static_cast<size_t>(i)];
    float* tail = out.data() + replica_->parameters.size();
    if (Status done = parts_.model->SetBatch(inputs_, targets_); !done.ok()) return done;
    if (Status done = stamp[0].Record(kernels().stream()); !done.ok()) return done;
    if (Status done = SetStop(tail + kTailStop, stop); !done.ok()) return done;
    if (Status done = parts_.model->Forward(tail + kTailLoss); !done.ok()) return done;
    if (Status done = stamp[1].Record(kernels().stream()); !done.ok()) return done;
    Status done = parts_.model->Backward(out.data(), complete);
    return done.ok() ? stamp[2].Record(kernels().stream()) : done;
  }

  Status SetStop(float* on_gpu, bool stop) {
    const float* value = parts_.flags.As<float>() + (stop ? 1 : 0);
    return parts_.device->driver().Check(
        "cuMemcpyHtoDAsync of a step's tail",
        parts_.device->api().copy_to_device(reinterpret_cast<uintptr_t>(on_gpu), value,
                                            sizeof(float), kernels().stream().get()));
  }

  // Of all buckets that lie behind `from`. A failure is kept for Step.
  void Issue(size_t from) {
    if (all_->world() == 1) return;
    while (failed_.ok() && works_.size() < buckets_.size() &&
           from <= buckets_[works_.size()].begin) {
      const size_t i = works_.size();
      failed_ = parts_.ready[i].Record(kernels().stream());
      if (!failed_.ok()) return;
      works_.push_back(all_->AllReduceAsync(
          {tree_.total().data() + buckets_[i].begin, buckets_[i].end - buckets_[i].begin,
           collectives::DataType::kFloat32},
          collectives::Reduction::kSum, tags_[i], &parts_.ready[i]));
    }
  }

  Result<StepResult> Update(const StepOptions& options, Duration data) {
    for (collectives::Work& work : works_) {
      if (Status waits = work.MakeWait(kernels().stream()); !waits.ok()) return waits.error();
    }
    if (Status stamped = Reduced().Record(kernels().stream()); !stamped.ok())
      return stamped.error();
    Status enqueued =
        parts_.optimizer->Step(parts_.arrays.replica(), tree_.total().data(), options);
    if (enqueued.ok()) enqueued = Updated().Record(kernels().stream());
    if (!enqueued.ok()) return enqueued.error();
    Result<CudaStepOutcome> outcome = parts_.optimizer->Finish();
    // What a peer's failure left in the stream is no outcome.
    for (collectives::Work& work : works_) {
      if (Status done = work.Wait(); !done.ok()) return done.error();
    }
    if (!outcome.ok()) return outcome.error();
    StepResult result;
    result.loss = outcome->tail[kTailLoss] / static_cast<double>(options.micro_batches);
    result.stop = outcome->tail[kTailStop] > 0;
    result.gradient_norm = outcome->gradient_norm;
    result.skipped = outcome->skipped;
    result.times.data = data;
    if (Status timed = ReadStamps(&result); !timed.ok()) return timed.error();
    return result;
  }

  Status ReadStamps(StepResult* result) const {
    const auto add = [](const CudaEvent& from, const CudaEvent& to, Duration* sum) -> Status {
      Result<Duration> elapsed = to.Since(from);
      if (!elapsed.ok()) return elapsed.error();
      *sum += *elapsed;
      return {};
    };
    Status done;
    for (size_t i = 0; done.ok() && i < static_cast<size_t>(leaves_); ++i) {
      const CudaEvent* stamp = &parts_.stamps[3 * i];
      done = add(stamp[0], stamp[1], &result->times.forward);
      if (done.ok()) done = add(stamp[1], stamp[2], &result->times.backward);
    }
    const CudaEvent& last = parts_.stamps[3 * static_cast<size_t>(leaves_) - 1];
    if (done.ok()) done = add(last, Reduced(), &result->waited);
    if (done.ok()) done = add(Reduced(), Updated(), &result->updating);
    return done;
  }

  Parts parts_;
  Replica* replica_;
  collectives::Communicator* all_;
  bool overlap_;
  int leaves_;
  std::vector<Bucket> buckets_;
  std::vector<std::string> tags_;
  GradientTree tree_;
  std::vector<int32_t> inputs_;   // [B, T]
  std::vector<int32_t> targets_;  // [B, T]
  std::vector<collectives::Work> works_;
  Status failed_;  // of the step's communication, before it was under way
};

Result<std::vector<CudaEvent>> Events(const std::shared_ptr<const CudaDevice>& device, size_t count,
                                      bool timed) {
  std::vector<CudaEvent> events;
  while (events.size() < count) {
    Result<CudaEvent> event = CudaEvent::Create(device, timed);
    if (!event.ok()) return event.error();
    events.push_back(std::move(*event));
  }
  return events;
}

// What the libraries take by themselves, and say nowhere: a context, kernels as they are loaded,
// and NCCL's buffers, which grow with its peers on the machine.
constexpr size_t kLibrariesBytes = size_t{1} << 30;
constexpr size_t kLibrariesBytesAlone = size_t{512} << 20;

// What a killed process held is given back a little after its end.
constexpr Duration kMemoryPatience = seconds(30);
constexpr Duration kMemoryGlance = milliseconds(200);

Status CheckMemory(const CudaDevice& device, const CudaMemoryPlan& plan) {
  const std::string who = "GPU " + std::to_string(device.index()) + " has ";
  for (const Time until = BootTime() + kMemoryPatience;;) {
    Result<CudaDevice::Memory> memory = device.LookAtMemory();
    if (!memory.ok()) return memory.error();
    if (plan.sum() > memory->total) {
      return Error::Invalid(who + Megabytes(memory->total) + ", and this takes " + ToString(plan) +
                            "; lower microBatchSize or sequenceLength, or take a smaller model");
    }
    if (plan.sum() <= memory->free) return {};
    if (BootTime() >= until) {
      return Error::Unavailable(who + Megabytes(memory->free) + " free of " +
                                Megabytes(memory->total) + ", and this takes " + ToString(plan) +
                                "; another process is on it");
    }
    std::this_thread::sleep_for(kMemoryGlance);
  }
}

}  // namespace

Result<Gpu> Gpu::Open(int index) {
  Result<std::shared_ptr<const CudaDevice>> device = CudaDevice::Open(index);
  if (!device.ok()) return device.error();
  Result<std::shared_ptr<const BlasLibrary>> blas = BlasLibrary::Load();
  if (!blas.ok()) return blas.error();
  Result<Kernels> kernels = Kernels::Load(*device);
  if (!kernels.ok()) return kernels.error();
  return Gpu{std::move(*device), std::move(*blas), std::move(*kernels)};
}

Result<Gpu> Gpu::Again() const {
  Result<Kernels> own = kernels.WithNewStream();
  if (!own.ok()) return own.error();
  return Gpu{device, blas, std::move(*own)};
}

std::string Gpu::InstructionSet() const {
  return "cuda " + device->name() + ", cuBLASLt " + blas->version();
}

std::string ToString(const CudaMemoryPlan& plan) {
  return Megabytes(plan.sum()) + " of memory: parameters " + Megabytes(plan.parameters) +
         ", gradients " + Megabytes(plan.gradients) + ", optimizer " + Megabytes(plan.optimizer) +
         ", activations " + Megabytes(plan.activations) + ", what NCCL and cuBLAS take up to " +
         Megabytes(plan.libraries);
}

CudaMemoryPlan PlanCudaMemory(const Shape& shape, const EngineOptions& options, int world) {
  const size_t count = ParameterCount(shape);
  CudaMemoryPlan plan;
  plan.parameters = Padded(count) * sizeof(float);
  plan.gradients = static_cast<size_t>(GradientTree::Arrays(options.batch.mine)) *
                   Padded(count + kTailSize) * sizeof(float);
  plan.optimizer = 2 * plan.parameters + CudaOptimizer::PredictBytes(shape);
  plan.libraries = world > 1 ? kLibrariesBytes : kLibrariesBytesAlone;
  plan.activations = CudaGpt::PredictBytes(shape, options.batch.micro_batch, options.precision);
  return plan;
}

Result<std::unique_ptr<Engine>> MakeCudaEngine(Gpu gpu, const EngineOptions& options,
                                               Replica& replica, collectives::Communicator& all) {
  if (options.sync != core::Sync::kAllReduce) {
    return Error::Invalid(
        "a parameter server computes on CPUs; write sync: AllReduce, or device: Cpu");
  }
  if (Status fits = CudaGpt::Check(replica.shape, options.batch.micro_batch); !fits.ok())
    return fits.error();
  const CudaMemoryPlan plan = PlanCudaMemory(replica.shape, options, all.world());
  if (Status fits = CheckMemory(*gpu.device, plan); !fits.ok()) return fits.error();
  Result<Arrays> arrays =
      Arrays::Allocate(gpu.device, replica.parameters.size(), options.batch.mine);
  if (!arrays.ok()) return arrays.error();
  Result<std::unique_ptr<CudaGpt>> model =
      CudaGpt::Create(gpu.device, gpu.blas, std::move(gpu.kernels),
                      {.shape = replica.shape,
                       .batch = options.batch.micro_batch,
                       .precision = options.precision,
                       .parameters = arrays->replica().parameters});
  if (!model.ok()) return model.error();
  Result<std::unique_ptr<CudaOptimizer>> optimizer =
      CudaOptimizer::Create(gpu.device, replica.shape, **model);
  if (!optimizer.ok()) return optimizer.error();
  Result<PinnedMemory> flags = PinnedMemory::Allocate(gpu.device, 2 * sizeof(float));
  if (!flags.ok()) return flags.error();
  const gpu::Checksum sums{.x = nullptr, .hashes = nullptr, .count = replica.parameters.size()};
  Result<DeviceMemory> hashes = DeviceMemory::Allocate(gpu.device, sums.parts() * sizeof(uint64_t));
  if (!hashes.ok()) return hashes.error();
  const size_t buckets =
      CutBuckets(replica.parameters.size() + kTailSize, options.sync_options.bucket_bytes).size();
  Result<std::vector<CudaEvent>> ready = Events(gpu.device, buckets, false);
  if (!ready.ok()) return ready.error();
  Result<std::vector<CudaEvent>> stamps =
      Events(gpu.device, CudaEngine::StampsOf(options.batch.mine), true);
  if (!stamps.ok()) return stamps.error();
  auto engine = std::make_unique<CudaEngine>(CudaEngine::Parts{.device = gpu.device,
                                                               .arrays = std::move(*arrays),
                                                               .model = std::move(*model),
                                                               .optimizer = std::move(*optimizer),
                                                               .flags = std::move(*flags),
                                                               .hashes = std::move(*hashes),
                                                               .ready = std::move(*ready),
                                                               .stamps = std::move(*stamps)},
                                             options, replica, all);
  if (Status begun = engine->Begin(); !begun.ok()) return begun.error();
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace lockstep::trainer
