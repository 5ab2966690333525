#include "worker/trainer/run/train.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/crypto/sha256.h"
#include "worker/collectives/connect.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/engine/batch_plan.h"
#include "worker/trainer/engine/engine.h"
#include "worker/trainer/engine/mesh.h"
#include "worker/trainer/engine/replica.h"
#include "worker/trainer/run/agent_link.h"
#include "worker/trainer/run/checkpoint_line.h"
#include "worker/trainer/run/environment.h"
#include "worker/trainer/run/evidence_signal.h"
#include "worker/trainer/run/exit_code.h"
#include "worker/trainer/run/gpu_figures.h"
#include "worker/trainer/run/memory_plan.h"
#include "worker/trainer/run/memory_turns.h"
#include "worker/trainer/run/placement.h"
#include "worker/trainer/run/rejoin.h"
#include "worker/trainer/run/reporter.h"
#include "worker/trainer/run/resume.h"
#include "worker/trainer/run/same_data.h"
#include "worker/trainer/run/saver.h"
#include "worker/trainer/run/scaling.h"
#include "worker/trainer/run/step_record.h"
#include "worker/trainer/run/stop_signal.h"
#include "worker/trainer/run/survivors.h"
#include "worker/trainer/run/validator.h"

namespace lockstep::trainer {

namespace {

using collectives::Communicator;

std::string Sha256Of(std::span<const float> values) {
  Sha256 hash;
  hash.Add(std::as_bytes(values));
  return hash.Hex();
}

// How long a rank that has lost a peer waits to hear that its generation has ended.
constexpr Duration kEndPatience = seconds(10);

// One rank's part of a generation. The members stand in the order in which they come to be.
class Run {
 public:
  // `rejoin`: null where the process ends with its generation. `kept`: of the last one.
  Run(const TrainOptions& options, Environment environment, StopSignal& stop, Rejoin* rejoin,
      std::optional<Kept> kept)
      : options_(options),
        environment_(std::move(environment)),
        stop_(stop),
        rejoin_(rejoin),
        kept_(std::move(kept)),
        threads_(ThreadCount(options.threads)) {}

  ~Run() {
    if (rejoin_ != nullptr) rejoin_->Watch(nullptr);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // The exit code.
  Result<int> Go() {
    Result<int> code = Work();
    if (!code.ok()) SayXids();
    if (!code.ok() && LivesOn(code.error())) return code;
    // The peers' reaction to this rank's own leaving is no error; a failure reported before it is.
    if (leaving_.exchange(true)) pause();
    return code;
  }

  // This generation has ended, and the process may go on in the next.
  bool ended() const { return rejoin_ != nullptr && rejoin_->ended(); }

  // What it goes on with, when nothing of the generation acts here any more.
  std::optional<Kept> TakeKept() {
    rejoin_->Watch(nullptr);
    evidence_.reset();
    saver_.reset();
    part_.reset();
    all_.reset();
    engine_.reset();
    if (!has_state_) return std::move(kept_);
    return Kept{.replica = std::move(*replica_),
                .at = at_,
                .skipped_in_a_row = skipped_in_a_row_,
                .stop = stopping_,
                .untold = std::move(untold_)};
  }

 private:
  // Who lost a peer hears of the end in a moment, unless it was the connection alone that broke.
  bool LivesOn(const Error& error) {
    if (rejoin_ == nullptr) return false;
    if (rejoin_->ended()) return true;
    return error.kind == ErrorKind::kUnavailable && rejoin_->AwaitEnd(kEndPatience);
  }

  Result<int> Work() {
    for (auto phase : {&Run::Open, &Run::Meet, &Run::Begin}) {
      Status done = (this->*phase)();
      if (!done.ok()) return done.error();
    }
    Result<int> code = Steps();
    if (!code.ok()) return code;
    Status finished = End(*code);
    if (!finished.ok()) return finished.error();
    return code;
  }

  // Of this rank's GPU, before the error that they may have led to. From any thread.
  void SayXids() {
    if (GpuFigures* figures = xids_.load()) figures->SayXids();
  }

  bool first() const { return all_->rank() == 0; }
  // Of rank 0.
  Replica& Whole() { return whole_ ? *whole_ : *replica_; }
  // For what is in host memory.
  Communicator& host() { return place_->host_view() == nullptr ? *all_ : *place_->host_view(); }

  // Checks that need no other rank come first, so that a mistake is reported before anybody waits.
  Status Open() {
    Result<collectives::Options> connection = collectives::OptionsFromEnvironment();
    if (!connection.ok()) return connection.error();
    connection_ = std::move(*connection);
    Result<Shape> shape = ShapeOf(job_);
    if (!shape.ok()) return shape.error();
    shape_ = *shape;
    mesh_ = Mesh::Of(job_.parallel, connection_.rank, connection_.world);
    if (Status mesh = CheckMesh(job_, shape_, mesh_); !mesh.ok()) return mesh;
    if (Status alone = CheckScaling(job_, mesh_); !alone.ok()) return alone;
    Result<BatchPlan> batch = PlanBatches(job_.global_batch_size, job_.micro_batch_size.value_or(0),
                                          connection_.rank, connection_.world, mesh_.ranks());
    if (!batch.ok()) return batch.error();
    batch_ = *batch;
    Result<Placement> place = Placement::Choose(job_, shape_, batch_.micro_batch, connection_);
    if (!place.ok()) return place.error();
    place_.emplace(std::move(*place));
    if (Status in_place = CheckInPlace(); !in_place.ok()) return in_place;
    Status precision = place_->gpu() ? Status() : CheckPrecision(job_.precision);
    if (!precision.ok()) return precision;
    Result<Dataset> data = Dataset::Open({.globs = job_.data,
                                          .sequence_length = shape_.context,
                                          .vocabulary = shape_.vocabulary,
                                          .at_least = batch_.global_batch,
                                          .seed = static_cast<uint64_t>(job_.seed)});
    if (!data.ok()) return data.error();
    data_.emplace(std::move(*data));
    return job_.validation_data.empty() ? Status() : OpenValidation();
  }

  // What a rank holds of the state must be all of it, and in its memory.
  Status CheckInPlace() {
    if (job_.recovery != core::Recovery::kInPlace) return {};
    if (job_.sync != core::Sync::kAllReduce || mesh_.ranks() > 1) {
      return Error::Invalid(
          "in place wants ranks that hold the whole state each: sync AllReduce, and "
          "parallel.pipeline and tensor 1");
    }
    if (place_->gpu()) {
      return Error::Invalid(
          "in place is for CPUs so far: write device: Cpu (--device cpu), or recovery: Restart");
    }
    return {};
  }

  Status OpenValidation() {
    Result<Validator> validator = Validator::Open(job_, shape_, batch_.micro_batch);
    if (!validator.ok()) return validator.error();
    validator_.emplace(std::move(*validator));
    const std::string both = connection_.rank == 0 ? TrainedOnAndHeldOut(job_) : "";
    if (!both.empty()) {
      Warn("validationData: " + both + " is among the data, too: it is trained on");
    }
    return {};
  }

  Status Meet() {
    agent_.emplace(environment_.socket, connection_.rank, environment_.generation);
    line_.emplace(LineOptions(), *agent_);
    place_->Tell(connection_);
    connection_.algorithm = job_.reduce;
    connection_.operation_timeout =
        duration_cast<Duration>(std::chrono::duration<double>(options_.collective_timeout));
    if (line_->writes()) {
      connection_.evidence_dir =
          line_->Root() + "/evidence/" +
          (environment_.generation.empty() ? "run" : environment_.generation);
    }
    if (rejoin_ != nullptr) connection_.given_up = [this] { return rejoin_->ended(); };
    connection_.on_failure = [this](const Error& error) {
      // The training thread meets the same error, and waits for its agent.
      const bool peer = error.kind == ErrorKind::kUnavailable;
      if (rejoin_ != nullptr && (peer || rejoin_->ended())) return;
      if (leaving_.exchange(true)) return;
      SayXids();
      Complain(error);
      std::fflush(nullptr);
      _exit(ExitCodeOf(error));
    };
    Result<std::unique_ptr<Communicator>> all = collectives::Connect(connection_);
    if (!all.ok()) return all.error();
    all_ = std::move(*all);
    if (rejoin_ != nullptr) {
      rejoin_->Watch([this] { all_->Abort("its generation has ended"); });
    }
    evidence_.emplace(environment_.socket,
                      [this](const std::string& folder) { return all_->Record(folder); });
    Status settled = place_->Settle(*all_);
    if (settled.ok() && !place_->gpu()) settled = CheckPrecision(job_.precision);
    if (!settled.ok()) return settled;
    return CompareData(data_->Fingerprint() + (validator_ ? validator_->Fingerprint() : ""),
                       host());
  }

  CheckpointLine::Options LineOptions() const {
    CheckpointLine::Options line;
    line.keep = options_.keep;
    line.committed = !environment_.checkpoint_dir.empty();
    line.folder = line.committed ? environment_.checkpoint_dir : options_.checkpoint_dir;
    const bool from_agent = line.committed || !environment_.resume_dir.empty();
    line.resume = from_agent ? environment_.resume_dir : options_.resume;
    if (job_.memory_every != 0) line.memory = environment_.memory_dir;
    return line;
  }

  Status Begin() {
    const bool writes = first() && (line_->writes() || line_->in_memory());
    if (place_->gpu()) {
      xids_ = &gpu_figures_.emplace(*place_->gpu()->device, job_.precision);
    }
    instruction_set_ = place_->gpu() ? place_->gpu()->InstructionSet() : InstructionSet();
    if (first()) SayPlan(writes);
    try {
      return Build(writes);
    } catch (const std::bad_alloc&) {
      return Error::Invalid(
          "rank " + std::to_string(all_->rank()) + ", " + ToString(shape_, mesh_.stage()) +
          ", does not get its memory, " +
          ToString(PlanMemory(shape_, batch_, job_.precision, writes, mesh_.stage())) +
          ": lower microBatchSize or sequenceLength, or raise parallel.pipeline or tensor, or the "
          "memory");
    }
  }

  // Takes the memory that training needs.
  Status Build(bool writes) {
    if (Status measured = MeasureScaling(); !measured.ok()) return measured;
    Result<bool> went_on = GoOn();
    if (!went_on.ok()) return went_on.error();
    if (!*went_on) {
      if (Status read = ReadState(); !read.ok()) return read;
    }
    has_state_ = true;
    Result<std::unique_ptr<Engine>> engine =
        place_->gpu()
            ? MakeCudaEngine(std::move(*place_->gpu()), OptionsOfEngine(), *replica_, *all_)
            : MakeCpuEngine(OptionsOfEngine(), *replica_, *all_, threads_);
    if (!engine.ok()) return engine.error();
    engine_ = std::move(*engine);
    if (writes) saver_.emplace(*line_, shape_);
    if (line_->in_memory() && connection_.local_rank == 0 && !first()) part_.emplace(*line_);
    memory_turns_.emplace(job_, at_.step, BootTime());
    if (first() && at_.step > 0 && !*went_on) {
      std::printf("resuming at step %lld\n", static_cast<long long>(at_.step));
    }
    return reporter_.Open({.rank = all_->rank(),
                           .step = at_.step,
                           .metrics = options_.metrics,
                           .tensorboard = TensorBoardDir(),
                           .log_every = options_.log_every},
                          *agent_);
  }

  Status ReadState() {
    replica_.emplace(shape_, mesh_.stage());
    if (first() && !mesh_.stage().is_model()) whole_.emplace(shape_);
    const Time began = BootTime();
    Result<Position> position = Resume(*line_, ManifestNow(), *replica_,
                                       whole_ ? &*whole_ : nullptr, mesh_, host(), threads_);
    if (!position.ok()) return position.error();
    at_ = *position;
    if (at_.step > 0) loaded_ = BootTime() - began;
    return {};
  }

  // With what a rank has that outlived the last generation; false: none did.
  Result<bool> GoOn() {
    if (job_.recovery != core::Recovery::kInPlace || environment_.socket.empty()) return false;
    const Result<std::optional<int>> from = TakeFurthest(kept_, shape_, host(), threads_);
    if (!from.ok()) return from.error();
    if (!*from) return false;
    replica_.emplace(std::move(kept_->replica));
    at_ = kept_->at;
    skipped_in_a_row_ = kept_->skipped_in_a_row;
    stopping_ = kept_->stop;
    untold_ = std::move(kept_->untold);
    kept_.reset();
    went_on_ = true;
    if (first()) {
      std::printf("going on after step %lld with the state of rank %d\n",
                  static_cast<long long>(at_.step), **from);
    }
    return true;
  }

  // Beside which the one that trains can be made later.
  Result<std::unique_ptr<Engine>> MakeLoneEngine(const EngineOptions& options, Replica& replica,
                                                 Communicator& all) {
    if (!place_->gpu()) return MakeCpuEngine(options, replica, all, threads_);
    Result<Gpu> gpu = place_->gpu()->Again();
    if (!gpu.ok()) return gpu.error();
    return MakeCudaEngine(std::move(*gpu), options, replica, all);
  }

  // In each generation anew: it may have got another GPU, or other cores.
  Status MeasureScaling() {
    if (!job_.measure_scaling || all_->world() == 1) return {};
    const LoneRank lone = {
        .job = job_,
        .shape = shape_,
        .batch = batch_,
        .make_engine = [this](const EngineOptions& options, Replica& replica,
                              Communicator& all) { return MakeLoneEngine(options, replica, all); },
        .read = [this](int i, std::span<int32_t> inputs,
                       std::span<int32_t> targets) { return ReadBatch(i, inputs, targets); },
        .stopped = [this] { return stop_.Asked(); }};
    Result<double> alone = MeasureAlone(lone, host());
    if (!alone.ok()) return alone.error();
    if (*alone > 0) scaling_.emplace(*alone);
    return {};
  }

  std::string TensorBoardDir() const {
    if (options_.tensorboard == "none") return "";
    if (!options_.tensorboard.empty()) return options_.tensorboard;
    return line_->writes() ? line_->Root() + "/tensorboard" : "";
  }

  EngineOptions OptionsOfEngine() {
    return {.batch = batch_,
            .precision = job_.precision,
            .sync = job_.sync,
            .sync_options = {.bucket_bytes = static_cast<size_t>(job_.bucket_mb) << 20,
                             .overlap = job_.overlap,
                             .servers = job_.servers,
                             .parallel = job_.parallel},
            .whole = whole_ ? &*whole_ : nullptr};
  }

  void SayPlan(bool writes) {
    std::printf("%s: %zu parameters on %lld tokens (%lld sequences an epoch), %s\n",
                ToString(shape_).c_str(), ParameterCount(shape_),
                static_cast<long long>(data_->tokens()), static_cast<long long>(data_->size()),
                instruction_set_.c_str());
    std::printf("world size %d, threads a rank: %d, %s; micro-batches a step: %d of %d sequences\n",
                all_->world(), threads_.count(), all_->Describe().c_str(), batch_.count,
                batch_.micro_batch);
    MemoryPlan memory = PlanMemory(shape_, batch_, job_.precision, writes);
    if (place_->gpu()) {
      std::printf("GPU: %s\n",
                  ToString(PlanCudaMemory(shape_, OptionsOfEngine(), all_->world())).c_str());
      memory.gradients = memory.activations = 0;
      if (!gpu_figures_->why_not().empty()) {
        std::printf("no figures of the GPU: %s\n", gpu_figures_->why_not().c_str());
      }
    } else if (!place_->why_not().empty()) {
      std::printf("on CPUs: %s\n", place_->why_not().c_str());
    }
    std::printf("%s\n", !mesh_.stage().is_model()
                            ? TellStages(shape_, batch_, job_.precision, writes, mesh_).c_str()
                            : ToString(memory).c_str());
    std::fflush(stdout);
  }

  Result<int> Steps() {
    if (went_on_) {
      // What the last generation left undone after the step, or did and was not heard to do.
      record_ = untold_ && untold_->step == at_.step ? *untold_ : StepRecord{};
      if (Status settled = Settle(); !settled.ok()) return settled.error();
      if (stopping_) return core::kExitStopped;
    } else if (Status missed = CatchUpOnValidation(); !missed.ok()) {
      return missed.error();
    }
    while (at_.step < job_.steps) {
      Result<StepResult> done = Step();
      if (!done.ok()) return done.error();
      skipped_in_a_row_ = done->skipped ? skipped_in_a_row_ + 1 : 0;
      if (skipped_in_a_row_ > options_.max_skipped) return Diverged();
      stopping_ = done->stop;
      untold_ = record_;
      if (Status settled = Settle(); !settled.ok()) return settled.error();
      if (stopping_) return core::kExitStopped;
    }
    return core::kExitSuccess;
  }

  // What follows a step.
  Status Settle() {
    if (at_.step == 0) return {};
    if (options_.compare_every > 0 && at_.step % options_.compare_every == 0) {
      Status same = ReplicasAreEqual();
      if (!same.ok()) return same;
    }
    // A stop has no time for it: who goes on from here validates first.
    if (!stopping_ && at_.validated != at_.step) {
      if (Status validated = ValidateIfDue(); !validated.ok()) return validated;
    }
    const bool last = stopping_ || at_.step == job_.steps;
    const bool due = job_.checkpoint_every > 0 && at_.step % job_.checkpoint_every == 0;
    Status saved;
    if (line_->writes() && (last || due)) {
      saved = Save(false, last);
    } else {
      Result<bool> memory = stopping_ ? line_->in_memory() : IsDueInMemory();
      if (!memory.ok()) return memory.error();
      if (*memory) saved = Save(true, last);
    }
    if (!saved.ok()) return saved;
    if (untold_) {
      ReportStep(stopping_);
    } else if (record_.validation) {
      reporter_.Tell(*record_.validation);
    }
    untold_.reset();
    return {};
  }

  // Of the step that this run goes on from.
  Status CatchUpOnValidation() {
    record_ = {};
    if (at_.validated != at_.step) {
      if (Status validated = ValidateIfDue(); !validated.ok()) return validated;
    }
    if (record_.validation) reporter_.Tell(*record_.validation);
    return {};
  }

  // Before the step's checkpoint, which says that it was.
  Status ValidateIfDue() {
    if (!validator_ || !validator_->IsDue(at_.step)) return {};
    Result<Validation> done =
        validator_->Run(at_.step, *engine_, mesh_, host(), [this] { reporter_.TellAlive(); });
    if (!done.ok()) return done.error();
    at_.validated = at_.step;
    record_.validation = *done;
    reporter_.Say(*done);
    return {};
  }

  Status ReplicasAreEqual() {
    Result<uint64_t> hash = engine_->HashOfReplica();
    return hash.ok() ? CompareReplicas(*hash, host(), mesh_.ranks()) : hash.error();
  }

  Error Diverged() const {
    return Error::Internal("the loss was no finite number in " +
                           std::to_string(options_.max_skipped + 1) + " steps in a row, at step " +
                           std::to_string(at_.step) +
                           "; lower learningRate or clip, or look at the data");
  }

  Result<StepResult> Step() {
    record_ = {.loaded = std::exchange(loaded_, Duration::zero())};
    const Time began = BootTime();
    StepOptions step;
    step.micro_batches = batch_.count;
    step.t = at_.optimizer_steps + 1;
    step.learning_rate = LearningRate(at_.step + 1, job_.learning_rate, job_.warmup_steps,
                                      job_.decay_steps > 0 ? job_.decay_steps : job_.steps);
    step.clip = job_.clip;
    step.adamw.weight_decay = job_.weight_decay;
    step.stop = stop_.Asked();
    step.before_update = [this] { WaitForCopy(); };
    Result<StepResult> done =
        engine_->Step(step, [this](int i, std::span<int32_t> inputs, std::span<int32_t> targets) {
          return ReadBatch(i, inputs, targets);
        });
    if (!done.ok()) return done;
    ++at_.step;
    at_.cursor += batch_.global_batch;
    ++(done->skipped ? at_.skipped : at_.optimizer_steps);
    if (done->skipped && first()) {
      std::fprintf(stderr, "lockstep-trainer: step %lld skipped: loss %g, gradient norm %g\n",
                   static_cast<long long>(at_.step), done->loss, done->gradient_norm);
    }
    Note(*done, step.learning_rate, BootTime() - began);
    return done;
  }

  // The last checkpoint is copied from what the optimizer is about to write; of stages from whole_,
  // which UpdateReplica() alone writes.
  void WaitForCopy() {
    if (!saver_ || whole_) return;
    const Time began = BootTime();
    saver_->WaitForCopy();
    const Duration stall = BootTime() - began;
    memory_turns_->OnWaitForCopy(stall);
    record_.checkpoint += stall;
  }

  Status ReadBatch(int i, std::span<int32_t> inputs, std::span<int32_t> targets) const {
    const auto tokens = static_cast<size_t>(shape_.context);
    for (int b = 0; b < batch_.micro_batch; ++b) {
      const size_t from = static_cast<size_t>(b) * tokens;
      Status read = data_->Read(batch_.SampleOf(at_.cursor, i) + b, inputs.subspan(from, tokens),
                                targets.subspan(from, tokens));
      if (!read.ok()) return read;
    }
    return {};
  }

  void Note(const StepResult& done, double learning_rate, Duration whole) {
    record_.step = at_.step;
    record_.total_steps = job_.steps;
    record_.loss = done.loss;
    record_.gradient_norm = done.gradient_norm;
    record_.learning_rate = learning_rate;
    record_.skipped = at_.skipped;
    record_.all_tokens = batch_.global_batch * shape_.context;
    record_.my_tokens = record_.all_tokens / all_->world();
    record_.flops_per_token = FlopsPerToken(shape_);
    record_.pipeline = mesh_.ranks() > 1;
    if (gpu_figures_) record_.peak_flops = gpu_figures_->peak_flops();
    record_.data = done.times.data;
    record_.forward = done.times.forward;
    record_.backward = done.times.backward;
    record_.exposed = done.waited;
    record_.optimizer = done.updating;
    record_.whole = whole;
  }

  // On all ranks alike.
  Result<bool> IsDueInMemory() {
    if (!line_->in_memory()) return false;
    return memory_turns_->IsDue(at_.step, saver_ ? &*saver_ : nullptr, threads_.count(), host());
  }

  Status Save(bool in_memory, bool last) {
    const Time began = BootTime();
    Status updated = UpdateReplica();
    if (!updated.ok()) return updated;
    if (saver_) saver_->Save(std::as_const(Whole()).state(), ManifestNow(), in_memory);
    if (part_ && in_memory) part_->Commit(at_.step);
    if (saver_ && last) saver_->Wait();
    const Duration stall = BootTime() - began;
    memory_turns_->OnSave(in_memory, stall);
    record_.checkpoint += stall;
    record_.whole += stall;
    return {};
  }

  Status UpdateReplica() {
    if (saver_) saver_->WaitForCopy();
    return engine_->UpdateReplica();
  }

  Manifest ManifestNow() const {
    Manifest manifest;
    manifest.step = at_.step;
    manifest.cursor = at_.cursor;
    manifest.optimizer_steps = at_.optimizer_steps;
    manifest.skipped = at_.skipped;
    manifest.validated = at_.validated;
    manifest.seed = static_cast<uint64_t>(job_.seed);
    manifest.loss = record_.loss;
    manifest.job_uid = environment_.job_uid;
    manifest.generation = environment_.generation;
    manifest.instruction_set = instruction_set_;
    manifest.precision = job_.precision == Precision::kBf16 ? "bf16" : "fp32";
    manifest.data = data_->Fingerprint();
    manifest.world = all_->world();
    manifest.pipeline = mesh_.stages;
    manifest.tensor = mesh_.tensor;
    manifest.tensor_shards = mesh_.shards;
    manifest.global_batch = batch_.global_batch;
    manifest.micro_batch = batch_.micro_batch;
    return manifest;
  }

  void ReportStep(bool stopping) {
    if (saver_) record_.checkpoint_write = saver_->last_write();
    if (scaling_) {
      scaling_->OnStep(record_);
      record_.scaling = scaling_->scaling();
    }
    Numbers of_gpu;
    if (gpu_figures_) gpu_figures_->AddTo(of_gpu, BootTime());
    if (saver_) saver_->ReportEnded();
    reporter_.Tell(record_, of_gpu, stopping);
  }

  Status End(int code) {
    reporter_.Flush();
    Status finished = UpdateReplica();
    if (finished.ok()) finished = all_->Finish();
    if (!finished.ok()) return finished;
    if (!first()) return {};
    if (code == core::kExitStopped) {
      std::printf("stopped on request after step %lld\n", static_cast<long long>(at_.step));
    }
    if (const auto scaling = scaling_ ? scaling_->scaling() : std::nullopt) {
      std::printf("%s\n", Line(*scaling).c_str());
    }
    std::printf("weights after step %lld: sha256 %s\n", static_cast<long long>(at_.step),
                Sha256Of(Whole().parameters).c_str());
    std::printf("peak memory %.0f MB\n", static_cast<double>(PeakResidentBytes()) / 1e6);
    std::fflush(stdout);
    return {};
  }

  const TrainOptions& options_;
  const core::Trainer& job_ = options_.job;
  const Environment environment_;
  StopSignal& stop_;
  Rejoin* rejoin_;            // null: the process ends with its generation
  std::optional<Kept> kept_;  // what this rank has of the last one, until it has more
  bool went_on_ = false;      // with what some rank kept
  bool has_state_ = false;    // replica_ is that after step at_.step, between steps
  bool stopping_ = false;     // the step is the last, as was asked
  int64_t skipped_in_a_row_ = 0;
  std::optional<StepRecord> untold_;  // the step's, until it is reported
  Threads threads_;
  collectives::Options connection_;
  Shape shape_;
  Mesh mesh_;
  BatchPlan batch_;
  std::optional<Dataset> data_;
  std::optional<Validator> validator_;  // none: nothing is held out
  std::optional<AgentLink> agent_;
  std::optional<CheckpointLine> line_;
  std::optional<Replica> replica_;  // of this rank's stage
  std::optional<Replica> whole_;    // of rank 0, where that is not the model as files have it
  Position at_;
  std::optional<Placement> place_;
  std::string instruction_set_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Communicator> all_;  // before what it moves is freed, it has gone
  std::optional<Saver> saver_;         // of rank 0
  std::optional<EmptyPart> part_;      // of one rank of each other machine
  std::optional<MemoryTurns> memory_turns_;
  std::optional<ScalingMeter> scaling_;  // of rank 0, where it is measured
  Reporter reporter_;
  StepRecord record_;
  std::optional<GpuFigures> gpu_figures_;    // none: on CPUs
  std::atomic<GpuFigures*> xids_ = nullptr;  // gpu_figures_, for on_failure's thread
  Duration loaded_{};                        // for the checkpoint; told with the first step
  std::optional<EvidenceSignal> evidence_;   // reads all_
  std::atomic<bool> leaving_ = false;        // the thread that sets it decides the exit code
};

}  // namespace

int Train(const TrainOptions& options) {
  EvidenceSignal::Block();
  StopSignal stop;
  std::optional<Kept> kept;
  for (;;) {
    Environment environment = ReadEnvironment();
    std::optional<Rejoin> rejoin;
    if (options.job.recovery == core::Recovery::kInPlace && !environment.socket.empty() &&
        !environment.generation.empty()) {
      rejoin.emplace(environment.socket, environment.rank, environment.generation);
    }
    auto run = std::make_unique<Run>(options, std::move(environment), stop,
                                     rejoin ? &*rejoin : nullptr, std::move(kept));
    const Result<int> code = run->Go();
    if (code.ok()) return *code;
    if (!run->ended()) {
      Complain(code.error());
      return ExitCodeOf(code.error());
    }
    Warn(code.error().message + "; this process lives on");
    kept = run->TakeKept();
    run.reset();
    const Result<lockstep::Json> next = rejoin->Leave();
    const Status told = next.ok() ? ApplyEnvironment(*next) : Status(next.error());
    if (!told.ok()) {
      Complain(told.error());
      return core::kExitPeerLost;
    }
  }
}

}  // namespace lockstep::trainer
