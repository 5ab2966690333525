#include "worker/trainer/cuda/engine/cuda_engine.h"

#include <algorithm>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "worker/trainer/cuda/cuda_gpt.h"
#include "worker/trainer/cuda/engine/cuda_links.h"
#include "worker/trainer/cuda/engine/cuda_optimizer.h"
#include "worker/trainer/cuda/pinned_memory.h"
#include "worker/trainer/cuda/red_zone.h"
#include "worker/trainer/engine/buckets.h"
#include "worker/trainer/engine/gradient_tree.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/model/buffers.h"

namespace lockstep::trainer {

namespace {

using collectives::CudaDevice;
using collectives::CudaDriver;
using collectives::CudaEvent;
using collectives::DeviceMemory;

// Arrays in the GPU's memory begin at multiples of this many floats, which kernels ask for.
constexpr size_t kGrain = 64;

size_t Padded(size_t floats) {
  return BlocksOf(floats, kGrain) * kGrain + kRedZone / sizeof(float);
}

std::string Megabytes(size_t bytes) {
  return std::to_string((bytes + 999'999) / 1'000'000) + " MB";
}

// Floats in the GPU's memory: the replica, and the arrays of the tree of gradients.
struct Arrays {
  // `held` parameters, of which the first are `owned`.
  static Result<Arrays> Allocate(const std::shared_ptr<const CudaDevice>& device, size_t held,
                                 size_t owned, int leaves) {
    const size_t count =
        Padded(held) + 2 * Padded(owned) +
        static_cast<size_t>(GradientTree::Arrays(leaves)) * Padded(owned + kTailSize);
    Result<DeviceMemory> memory = DeviceMemory::Allocate(device, count * sizeof(float));
    if (!memory.ok()) return memory.error();
    return Arrays(std::move(*memory), held, owned, leaves);
  }

  CudaReplica replica() const {
    float* moments = begin() + Padded(held);
    return {.parameters = begin(), .moment1 = moments, .moment2 = moments + Padded(owned)};
  }
  std::vector<std::span<float>> gradients() const {
    std::vector<std::span<float>> arrays;
    float* next = begin() + Padded(held) + 2 * Padded(owned);
    for (int i = 0; i < GradientTree::Arrays(leaves); ++i) {
      arrays.emplace_back(next, owned + kTailSize);
      next += Padded(owned + kTailSize);
    }
    return arrays;
  }
  float* begin() const { return static_cast<float*>(memory.data()); }

  DeviceMemory memory;
  size_t held;
  size_t owned;
  int leaves;

 private:
  Arrays(DeviceMemory taken, size_t all, size_t own, int of)
      : memory(std::move(taken)), held(all), owned(own), leaves(of) {
    GuardBehind(replica().parameters, held);
    GuardBehind(replica().moment1, owned);
    GuardBehind(replica().moment2, owned);
    for (const std::span<float> array : gradients()) GuardBehind(array.data(), array.size());
  }
  static void GuardBehind(const float* array, size_t size) {
    Guard(array + size, array + Padded(size));
  }
};

// Of all ranks alike: stages that have fewer, empty ones.
std::vector<Bucket> BucketsOf(const Shape& shape, const Mesh& mesh, size_t bytes) {
  const auto of = [&](int stage) {
    return CutBuckets(OwnedCount(shape, mesh.StageOf(stage, mesh.part())) + kTailSize, bytes);
  };
  std::vector<Bucket> buckets = of(mesh.stage().index);
  size_t most = 0;
  for (int i = 0; i < mesh.stages; ++i) most = std::max(most, of(i).size());
  buckets.resize(most);
  return buckets;
}

// A step of a stage is 1F1B, as CpuEngine has it.
class CudaEngine final : public Engine {
 public:
  struct Parts {
    std::shared_ptr<const CudaDevice> device;
    Arrays arrays;
    std::unique_ptr<CudaGpt> model;
    std::unique_ptr<CudaOptimizer> optimizer;
    std::unique_ptr<CudaLinks> links;
    PinnedMemory tails;             // that a micro-batch begins with: go on, stop
    DeviceMemory hashes;            // of an array's blocks
    std::vector<CudaEvent> ready;   // of each bucket: its sum on this rank is there
    CudaEvent measured;             // what the stages tell each other at a step's end
    std::vector<CudaEvent> stamps;  // timed: see Stamp
  };

  CudaEngine(Parts parts, const EngineOptions& options, Replica& replica,
             collectives::Communicator& all)
      : parts_(std::move(parts)),
        replica_(&replica),
        whole_(options.whole),
        all_(&all),
        host_(options.host),
        rank_(all.rank()),
        mesh_(Mesh::Of(options.sync_options.parallel, all.rank(), all.world())),
        stage_(mesh_.stage()),
        overlap_(options.sync_options.overlap),
        in_place_(options.in_place),
        leaves_(options.batch.mine),
        held_(HeldMicroBatches(stage_, leaves_)),
        buckets_(BucketsOf(replica.shape, mesh_, options.sync_options.bucket_bytes)),
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

  // Host to GPU, where alone it then is on most ranks: eight copies would fill a machine's memory.
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
    auto* tails = parts_.tails.As<float>();
    std::fill_n(tails, 2 * kTailSize, 0.0F);
    tails[kTailSize + kTailStop] = 1;
    if (Status updated = parts_.model->UpdateOperands(); !updated.ok()) return updated;
    if (!UpdatesReplica()) replica_->FreeArrays();
    return {};
  }

  Result<StepResult> Step(const StepOptions& options, const ReadBatch& read) override {
    works_.clear();
    failed_ = {};
    forward_ = 0;
    Duration data{};
    Status summed = tree_.Sum(
        [&](int i, std::span<float> out, const Complete& complete) {
          return MicroBatch(i, i == 0 && options.stop, read, out, complete, &data);
        },
        [this](size_t from) {
          // The stage before waits for what is computed last.
          if (overlap_ && stage_.first()) Issue(from);
        });
    if (summed.ok()) Issue(0);
    if (summed.ok()) summed = failed_;
    if (!summed.ok()) return summed.error();
    return Update(options, data);
  }

  // Into the tail of an array that the next step writes anew.
  Result<float> Loss(int index, const ReadBatch& read) override {
    float* on_gpu = tree_.total().data() + count() + kTailLoss;
    float loss = 0;
    Duration data{};
    Status done = SetBatch(index, 0, read, &data);
    if (done.ok()) done = parts_.links->TakeEntry();
    if (done.ok()) done = parts_.model->Forward(on_gpu, 0);
    if (done.ok()) done = parts_.links->HandOnExit();
    if (done.ok()) done = kernels().Synchronize();
    if (Status passed = parts_.links->Finish(); !passed.ok()) return passed.error();
    if (done.ok() && stage_.last()) {
      done = parts_.arrays.memory.CopyTo(&loss, sizeof loss, OffsetOf(on_gpu));
    }
    if (!done.ok()) return done.error();
    return loss;
  }

  Status UpdateReplica() override {
    if (!UpdatesReplica()) return {};
    if (Status copied = CopyReplica(); !copied.ok()) return copied;
    return stage_.is_model() ? Status() : GatherReplica(*replica_, whole_, mesh_, *host_);
  }

  // What is left in the stream of a step that failed reads the replica, and memory of the host.
  Status Quiesce() override { return kernels().Synchronize(); }

  Status KeepReplica() override {
    if (updating_) return Error::Internal("the GPU failed while it made a step");
    try {
      if (!UpdatesReplica()) replica_->AllocateArrays();
    } catch (const std::bad_alloc&) {
      return Error::Unavailable("there is no host memory to keep the model and the optimizer in");
    }
    return CopyReplica();
  }

  Result<uint64_t> HashOfReplica() override {
    const CudaReplica on_gpu = parts_.arrays.replica();
    const std::pair<const float*, size_t> arrays[] = {{on_gpu.parameters, parts_.arrays.held},
                                                      {on_gpu.moment1, count()},
                                                      {on_gpu.moment2, count()}};
    std::vector<uint64_t> hashes;
    for (const auto& [array, size] : arrays) {
      const gpu::Checksum sums{
          .x = array, .hashes = static_cast<uint64_t*>(parts_.hashes.data()), .count = size};
      std::vector<uint64_t> blocks(sums.parts());
      Status done = kernels().Launch(sums);
      if (done.ok()) done = kernels().Synchronize();
      if (done.ok()) done = parts_.hashes.CopyTo(blocks.data(), blocks.size() * sizeof(uint64_t));
      if (!done.ok()) return done.error();
      hashes.push_back(MixHashes(blocks));
    }
    return MixHashes(hashes);
  }

  // Timed events: of each micro-batch the begin and the end of its forward and of its backward
  // pass; then of the step.
  static size_t StampsOf(int leaves) { return 4 * static_cast<size_t>(leaves) + 2; }

 private:
  Kernels& kernels() { return parts_.model->kernels(); }
  // Of what the stage owns.
  size_t count() const { return parts_.arrays.owned; }
  // This rank's replica in host memory is used.
  bool UpdatesReplica() const { return stage_.is_model() ? rank_ == 0 : mesh_.pipeline() == 0; }
  size_t SlotOf(int i) const { return static_cast<size_t>(i % held_); }
  const CudaEvent& Reduced() const { return parts_.stamps[StampsOf(leaves_) - 2]; }
  const CudaEvent& Updated() const { return parts_.stamps[StampsOf(leaves_) - 1]; }
  size_t OffsetOf(const float* in_arrays) const {
    return static_cast<size_t>(in_arrays - parts_.arrays.begin()) * sizeof(float);
  }

  // GPU to host.
  Status CopyReplica() {
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

  Status MicroBatch(int i, bool stop, const ReadBatch& read, std::span<float> out,
                    const Complete& complete, Duration* data) {
    float* tail = out.data() + count();
    if (Status begun = BeginTail(tail, stop); !begun.ok()) return begun;
    while (forward_ < leaves_ && forward_ < i + held_) {
      if (Status done = Forward(forward_++, read, tail, data); !done.ok()) return done;
    }
    const CudaEvent* stamp = &parts_.stamps[4 * static_cast<size_t>(i) + 2];
    Status done = parts_.links->BeforeBackward(i, out.data());
    if (done.ok()) done = stamp[0].Record(kernels().stream());
    if (done.ok()) {
      const auto head = static_cast<size_t>(i % HeldHeads(stage_, leaves_));
      done = parts_.model->Backward(out.data(), complete, SlotOf(i), head);
    }
    if (done.ok()) done = stamp[1].Record(kernels().stream());
    return done.ok() ? parts_.links->AfterBackward(i) : done;
  }

  // A last stage goes backward at once, so `tail` is this micro-batch's there.
  Status Forward(int i, const ReadBatch& read, float* tail, Duration* data) {
    const CudaEvent* stamp = &parts_.stamps[4 * static_cast<size_t>(i)];
    Status done = SetBatch(i, SlotOf(i), read, data);
    if (done.ok()) done = parts_.links->BeforeForward(i);
    if (done.ok()) done = stamp[0].Record(kernels().stream());
    if (done.ok()) done = parts_.model->Forward(tail + kTailLoss, SlotOf(i));
    if (done.ok()) done = stamp[1].Record(kernels().stream());
    return done.ok() ? parts_.links->AfterForward(i) : done;
  }

  // Of a stage that reads tokens.
  Status SetBatch(int i, size_t slot, const ReadBatch& read, Duration* data) {
    if (!stage_.first() && !stage_.last()) return {};
    const Time began = BootTime();
    if (Status filled = read(i, inputs_, targets_); !filled.ok()) return filled;
    *data += BootTime() - began;
    return parts_.model->SetBatch(inputs_, targets_, slot);
  }

  // No loss yet, and the request to stop.
  Status BeginTail(float* on_gpu, bool stop) {
    const float* values = parts_.tails.As<float>() + (stop ? kTailSize : 0);
    return parts_.device->driver().Check(
        "cuMemcpyHtoDAsync of a step's tail",
        parts_.device->api().copy_to_device(reinterpret_cast<uintptr_t>(on_gpu), values,
                                            kTailSize * sizeof(float), kernels().stream().get()));
  }

  // Of all buckets that lie behind `from`. A failure is kept for Step.
  void Issue(size_t from) {
    if (mesh_.pipelines() == 1) return;
    while (failed_.ok() && works_.size() < buckets_.size() &&
           from <= buckets_[works_.size()].begin) {
      const size_t i = works_.size();
      failed_ = parts_.ready[i].Record(kernels().stream());
      if (!failed_.ok()) return;
      const collectives::Span bucket{tree_.total().data() + buckets_[i].begin,
                                     buckets_[i].end - buckets_[i].begin,
                                     collectives::DataType::kFloat32};
      constexpr auto kSum = collectives::Reduction::kSum;
      works_.push_back(
          mesh_.ranks() == 1
              ? all_->AllReduceAsync(bucket, kSum, tags_[i], &parts_.ready[i])
              : all_->AllReduceWithin(mesh_.Copies(), bucket, kSum, tags_[i], &parts_.ready[i]));
    }
  }

  // What each rank of a pipeline knows of the step, all get to know.
  Status ShareOutcome() {
    Status done = parts_.optimizer->Measure(tree_.total().data());
    if (!done.ok() || mesh_.ranks() == 1) return done;
    if (done = parts_.measured.Record(kernels().stream()); !done.ok()) return done;
    works_.push_back(all_->AllGatherAsync(parts_.optimizer->row(), parts_.optimizer->rows(),
                                          "stages", &parts_.measured));
    return works_.back().MakeWait(kernels().stream());
  }

  Result<StepResult> Update(const StepOptions& options, Duration data) {
    for (collectives::Work& work : works_) {
      if (Status waits = work.MakeWait(kernels().stream()); !waits.ok()) return waits.error();
    }
    if (Status stamped = Reduced().Record(kernels().stream()); !stamped.ok())
      return stamped.error();
    // An abort ends sums in the midst: what they then are must not reach the optimizer.
    if (in_place_) {
      if (Status summed = AwaitSums(); !summed.ok()) return summed.error();
    }
    updating_ = true;
    const CudaReplica replica = parts_.arrays.replica();
    Status enqueued = ShareOutcome();
    if (enqueued.ok()) {
      enqueued = parts_.optimizer->Update(replica, tree_.total().data(), options);
    }
    if (enqueued.ok()) {
      enqueued = parts_.links->HandOnHead(replica.parameters + (stage_.first() ? 0 : count()));
    }
    if (enqueued.ok()) enqueued = Updated().Record(kernels().stream());
    if (!enqueued.ok()) return enqueued.error();
    Result<CudaStepOutcome> outcome = parts_.optimizer->Finish();
    // What a peer's failure left in the stream is no outcome.
    if (Status passed = parts_.links->Finish(); !passed.ok()) return passed.error();
    if (Status summed = AwaitSums(); !summed.ok()) return summed.error();
    if (!outcome.ok()) return outcome.error();
    StepResult result;
    result.loss = outcome->tail[kTailLoss] / static_cast<double>(options.micro_batches);
    result.stop = outcome->tail[kTailStop] > 0;
    result.gradient_norm = outcome->gradient_norm;
    result.skipped = outcome->skipped;
    result.times.data = data;
    if (Status timed = ReadStamps(&result); !timed.ok()) return timed.error();
    updating_ = false;
    return result;
  }

  Status AwaitSums() {
    for (collectives::Work& work : works_) {
      if (Status done = work.Wait(); !done.ok()) return done;
    }
    return {};
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
      const CudaEvent* stamp = &parts_.stamps[4 * i];
      done = add(stamp[0], stamp[1], &result->times.forward);
      if (done.ok()) done = add(stamp[2], stamp[3], &result->times.backward);
    }
    // Of a stage all else is waiting.
    const CudaEvent& first = parts_.stamps.front();
    const CudaEvent& last = parts_.stamps[4 * static_cast<size_t>(leaves_) - 1];
    if (done.ok()) done = add(mesh_.ranks() == 1 ? last : first, Reduced(), &result->waited);
    if (mesh_.ranks() > 1) {
      const Duration passes = result->times.forward + result->times.backward;
      result->waited = std::max(result->waited - passes, Duration::zero());  // times are rounded
    }
    if (done.ok()) done = add(Reduced(), Updated(), &result->updating);
    return done;
  }

  Parts parts_;
  Replica* replica_;
  Replica* whole_;
  collectives::Communicator* all_;
  collectives::Communicator* host_;
  const int rank_;
  const Mesh mesh_;
  const Stage stage_;
  bool overlap_;
  bool in_place_;
  bool updating_ = false;  // the optimizer may have written a part of the replica
  int leaves_;             // micro-batches of a step
  int held_;               // most of them at a time
  std::vector<Bucket> buckets_;
  std::vector<std::string> tags_;
  GradientTree tree_;
  std::vector<int32_t> inputs_;   // [B, T]
  std::vector<int32_t> targets_;  // [B, T]
  int forward_ = 0;               // micro-batches of the step that went forward
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

// Without its parameters.
CudaGptOptions ModelOptions(const Shape& shape, const EngineOptions& options, const Stage& stage) {
  return {.shape = shape,
          .batch = options.batch.micro_batch,
          .precision = options.precision,
          .stage = stage,
          .held = HeldMicroBatches(stage, options.batch.mine),
          .heads = HeldHeads(stage, options.batch.mine)};
}

constexpr Duration kMemoryGlance = milliseconds(200);

// `of`: "rank 1, stage 1 of 2 (...): ", where ranks share a model.
Status CheckMemory(const CudaDevice& device, const CudaMemoryPlan& plan, const std::string& of) {
  const std::string who = of + "GPU " + std::to_string(device.index()) + " has ";
  for (const Time until = BootTime() + CudaDriver::kMemoryPatience;;) {
    Result<CudaDevice::Memory> memory = device.LookAtMemory();
    if (!memory.ok()) return memory.error();
    if (plan.sum() > memory->total) {
      std::string message = who + Megabytes(memory->total) + ", and this takes " + ToString(plan);
      message += "; lower microBatchSize or sequenceLength, ";
      if (!of.empty()) message += "raise parallel.pipeline or tensor, ";
      return Error::Invalid(message + "or take a smaller model");
    }
    if (plan.sum() <= memory->free) return {};
    if (BootTime() >= until) {
      return Error::Unavailable(who + Megabytes(memory->free) + " free of " +
                                Megabytes(memory->total) + ", and this takes " + ToString(plan) +
                                "; another process uses it");
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

CudaMemoryPlan PlanCudaMemory(const Shape& shape, const EngineOptions& options, const Mesh& mesh) {
  const size_t count = OwnedCount(shape, mesh.stage());
  CudaMemoryPlan plan;
  plan.parameters = Padded(HeldCount(shape, mesh.stage())) * sizeof(float);
  plan.gradients = static_cast<size_t>(GradientTree::Arrays(options.batch.mine)) *
                   Padded(count + kTailSize) * sizeof(float);
  plan.optimizer = 2 * Padded(count) * sizeof(float) + CudaOptimizer::PredictBytes(shape, mesh);
  plan.libraries = mesh.world > 1 ? kLibrariesBytes : kLibrariesBytesAlone;
  plan.activations = CudaGpt::PredictBytes(ModelOptions(shape, options, mesh.stage()));
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
  const Mesh mesh = Mesh::Of(options.sync_options.parallel, all.rank(), all.world());
  const CudaMemoryPlan plan = PlanCudaMemory(replica.shape, options, mesh);
  const std::string of = mesh.stage().is_model() ? ""
                                                 : "rank " + std::to_string(mesh.rank) + ", " +
                                                       ToString(replica.shape, mesh.stage()) + ": ";
  if (Status fits = CheckMemory(*gpu.device, plan, of); !fits.ok()) return fits.error();
  Result<Arrays> arrays = Arrays::Allocate(gpu.device, replica.parameters.size(),
                                           replica.moment1.size(), options.batch.mine);
  if (!arrays.ok()) return arrays.error();
  CudaGptOptions model_options = ModelOptions(replica.shape, options, mesh.stage());
  model_options.parameters = arrays->replica().parameters;
  Result<std::unique_ptr<CudaGpt>> model =
      CudaGpt::Create(gpu.device, gpu.blas, std::move(gpu.kernels), model_options);
  if (!model.ok()) return model.error();
  Result<std::unique_ptr<CudaOptimizer>> optimizer =
      CudaOptimizer::Create(gpu.device, replica.shape, mesh, **model);
  if (!optimizer.ok()) return optimizer.error();
  Result<std::unique_ptr<CudaLinks>> links =
      CudaLinks::Create(gpu.device, mesh, options.batch.mine, **model, all);
  if (!links.ok()) return links.error();
  Result<PinnedMemory> tails = PinnedMemory::Allocate(gpu.device, 2 * kTailSize * sizeof(float));
  if (!tails.ok()) return tails.error();
  const gpu::Checksum sums{.x = nullptr, .hashes = nullptr, .count = replica.parameters.size()};
  Result<DeviceMemory> hashes = DeviceMemory::Allocate(gpu.device, sums.parts() * sizeof(uint64_t));
  if (!hashes.ok()) return hashes.error();
  const size_t buckets = BucketsOf(replica.shape, mesh, options.sync_options.bucket_bytes).size();
  Result<std::vector<CudaEvent>> ready = Events(gpu.device, buckets, false);
  if (!ready.ok()) return ready.error();
  Result<std::vector<CudaEvent>> stamps =
      Events(gpu.device, CudaEngine::StampsOf(options.batch.mine), true);
  if (!stamps.ok()) return stamps.error();
  Result<CudaEvent> measured = CudaEvent::Create(gpu.device);
  if (!measured.ok()) return measured.error();
  auto engine = std::make_unique<CudaEngine>(CudaEngine::Parts{.device = gpu.device,
                                                               .arrays = std::move(*arrays),
                                                               .model = std::move(*model),
                                                               .optimizer = std::move(*optimizer),
                                                               .links = std::move(*links),
                                                               .tails = std::move(*tails),
                                                               .hashes = std::move(*hashes),
                                                               .ready = std::move(*ready),
                                                               .measured = std::move(*measured),
                                                               .stamps = std::move(*stamps)},
                                             options, replica, all);
  if (Status begun = engine->Begin(); !begun.ok()) return begun.error();
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace lockstep::trainer
