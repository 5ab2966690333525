#include "worker/trainer/run/rank_run.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/crypto/sha256.h"
#include "core/exit_codes.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/process/exit_code.h"
#include "worker/trainer/run/memory_plan.h"
#include "worker/trainer/run/same_data.h"
#include "worker/trainer/run/tcp_warning.h"

namespace lockstep::trainer {

namespace {

using collectives::Communicator;

// How long a rank that has lost a peer waits to hear that its generation has ended.
constexpr Duration kEndPatience = seconds(10);

std::string Sha256Of(std::span<const float> values) {
  Sha256 hash;
  hash.Add(std::as_bytes(values));
  return hash.Hex();
}

}  // namespace

RankRun::RankRun(const TrainOptions& options, Environment environment, Setup setup,
                 StopSignal& stop, Rejoin* rejoin, std::optional<Kept> kept)
    : options_(options),
      environment_(std::move(environment)),
      stop_(stop),
      rejoin_(rejoin),
      kept_(std::move(kept)),
      threads_(ThreadCount(options.threads)),
      setup_(std::move(setup)) {}

RankRun::~RankRun() {
  if (rejoin_ != nullptr) rejoin_->Watch(nullptr);
}

Result<int> RankRun::Go() {
  Result<int> code = Work();
  if (!code.ok()) code = Judge(code.error());
  if (!code.ok() && LivesOn(code.error())) return code;
  // The peers' reaction to this rank's own leaving is no error; a failure reported before it is.
  if (leaving_.exchange(true)) pause();
  return code;
}

Status RankRun::Withdraw() {
  rejoin_->Watch(nullptr);
  evidence_.reset();
  saver_.reset();
  part_.reset();
  all_.reset();
  return engine_ ? engine_->Quiesce() : Status();
}

Result<std::optional<Kept>> RankRun::TakeKept() {
  if (engine_) {
    if (Status kept = engine_->KeepReplica(); !kept.ok()) return kept.error();
  }
  engine_.reset();
  if (!has_state_) return std::move(kept_);
  return std::optional(Kept{.replica = std::move(*replica_),
                            .at = at_,
                            .skipped_in_a_row = skipped_in_a_row_,
                            .stop = stopping_,
                            .untold = untold_});
}

bool RankRun::LivesOn(const Error& error) {
  if (rejoin_ == nullptr || error.kind == ErrorKind::kBroken) return false;
  if (rejoin_->ended()) return true;
  return error.kind == ErrorKind::kUnavailable && rejoin_->AwaitEnd(kEndPatience);
}

Result<int> RankRun::Work() {
  for (auto phase : {&RankRun::Meet, &RankRun::Begin}) {
    Status done = (this->*phase)();
    if (!done.ok()) return done.error();
  }
  Result<int> code = Steps();
  if (!code.ok()) return code;
  Status finished = End(*code);
  if (!finished.ok()) return finished.error();
  return code;
}

Error RankRun::Judge(const Error& error) {
  GpuFigures* figures = xids_.load();
  return figures == nullptr ? error : figures->Judge(error, BootTime());
}

Status RankRun::Meet() {
  agent_.emplace(environment_.socket, setup_.connection.rank, environment_.generation);
  line_.emplace(LineOptions(), *agent_);
  setup_.place.Tell(setup_.connection);
  setup_.connection.algorithm = job_.reduce;
  setup_.connection.operation_timeout =
      duration_cast<Duration>(std::chrono::duration<double>(options_.collective_timeout));
  if (line_->writes()) {
    setup_.connection.evidence_dir =
        line_->Root() + "/evidence/" +
        (environment_.generation.empty() ? "run" : environment_.generation);
  }
  if (rejoin_ != nullptr) setup_.connection.given_up = [this] { return rejoin_->ended(); };
  setup_.connection.on_end = [this](const std::string& standing) {
    TellPlace(environment_.socket, setup_.connection.rank, environment_.generation, standing);
  };
  setup_.connection.on_failure = [this](const Error& error) {
    // The training thread meets the same error, and waits for its agent.
    const bool peer = error.kind == ErrorKind::kUnavailable;
    if (rejoin_ != nullptr && (peer || rejoin_->ended())) return;
    if (leaving_.exchange(true)) return;
    const Error judged = Judge(error);
    Complain(judged);
    std::fflush(nullptr);
    _exit(ExitCodeOf(judged));
  };
  Result<std::unique_ptr<Communicator>> all = collectives::Connect(setup_.connection);
  if (!all.ok()) return all.error();
  all_ = std::move(*all);
  WarnOfTcp();
  if (rejoin_ != nullptr) {
    rejoin_->Watch([this] { all_->Abort("its generation has ended"); });
  }
  evidence_.emplace(environment_.socket,
                    [this](const std::string& folder) { return all_->Record(folder); });
  Status settled = setup_.place.Settle(*all_);
  if (settled.ok() && !setup_.place.gpu()) settled = CheckPrecision(job_.precision);
  if (!settled.ok()) return settled;
  return CompareData(
      setup_.data.Fingerprint() + (setup_.validator ? setup_.validator->Fingerprint() : ""),
      host());
}

void RankRun::WarnOfTcp() const {
  if (setup_.connection.local_rank != 0) return;
  const std::string warning =
      TcpWarning(all_->network(), topology::ActiveRdmaDevices(""), NcclVariables::Read());
  if (!warning.empty()) Warn(warning);
}

CheckpointLine::Options RankRun::LineOptions() const {
  CheckpointLine::Options line;
  line.keep = options_.keep;
  line.committed = !environment_.checkpoint_dir.empty();
  line.folder = line.committed ? environment_.checkpoint_dir : options_.checkpoint_dir;
  const bool from_agent = line.committed || !environment_.resume_dir.empty();
  line.resume = from_agent ? environment_.resume_dir : options_.resume;
  if (job_.memory_every != 0) line.memory = environment_.memory_dir;
  return line;
}

Status RankRun::Begin() {
  const bool writes = first() && (line_->writes() || line_->in_memory());
  if (setup_.place.gpu()) {
    xids_ = &gpu_figures_.emplace(*setup_.place.gpu()->device, job_.precision);
  }
  instruction_set_ = setup_.place.gpu() ? setup_.place.gpu()->InstructionSet() : InstructionSet();
  if (first()) SayPlan(writes);
  try {
    return Build(writes);
  } catch (const std::bad_alloc&) {
    return Error::Invalid(
        "rank " + std::to_string(all_->rank()) + ", " +
        ToString(setup_.shape, setup_.mesh.stage()) + ", does not get its memory, " +
        ToString(
            PlanMemory(setup_.shape, setup_.batch, job_.precision, writes, setup_.mesh.stage())) +
        ": lower microBatchSize or sequenceLength, or raise parallel.pipeline or tensor, or the "
        "memory");
  }
}

Status RankRun::Build(bool writes) {
  if (Status measured = MeasureScaling(); !measured.ok()) return measured;
  Result<bool> went_on = GoOn();
  if (!went_on.ok()) return went_on.error();
  if (!*went_on) {
    if (Status read = ReadState(); !read.ok()) return read;
  }
  has_state_ = true;
  Result<std::unique_ptr<Engine>> engine =
      setup_.place.gpu()
          ? MakeCudaEngine(std::move(*setup_.place.gpu()), OptionsOfEngine(), *replica_, *all_)
          : MakeCpuEngine(OptionsOfEngine(), *replica_, *all_, threads_);
  if (!engine.ok()) return engine.error();
  engine_ = std::move(*engine);
  if (writes) saver_.emplace(*line_, setup_.shape);
  if (line_->in_memory() && setup_.connection.local_rank == 0 && !first()) part_.emplace(*line_);
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

Status RankRun::ReadState() {
  replica_.emplace(setup_.shape, setup_.mesh.stage());
  if (first() && !setup_.mesh.stage().is_model()) whole_.emplace(setup_.shape);
  const Time began = BootTime();
  Result<Position> position = Resume(*line_, ManifestNow(), *replica_, whole_ ? &*whole_ : nullptr,
                                     setup_.mesh, host(), threads_);
  if (!position.ok()) return position.error();
  at_ = *position;
  if (at_.step > 0) loaded_ = BootTime() - began;
  return {};
}

Result<bool> RankRun::GoOn() {
  if (job_.recovery != core::Recovery::kInPlace || environment_.socket.empty()) return false;
  const Result<std::optional<int>> from = TakeFurthest(kept_, setup_.shape, host(), threads_);
  if (!from.ok()) return from.error();
  if (!*from) return false;
  replica_.emplace(std::move(kept_->replica));
  at_ = kept_->at;
  skipped_in_a_row_ = kept_->skipped_in_a_row;
  stopping_ = kept_->stop;
  untold_ = kept_->untold;
  kept_.reset();
  went_on_ = true;
  if (first()) {
    std::printf("continuing after step %lld with the state of rank %d\n",
                static_cast<long long>(at_.step), **from);
  }
  return true;
}

Result<std::unique_ptr<Engine>> RankRun::MakeLoneEngine(const EngineOptions& options,
                                                        Replica& replica, Communicator& all) {
  if (!setup_.place.gpu()) return MakeCpuEngine(options, replica, all, threads_);
  Result<Gpu> gpu = setup_.place.gpu()->Again();
  if (!gpu.ok()) return gpu.error();
  return MakeCudaEngine(std::move(*gpu), options, replica, all);
}

Status RankRun::MeasureScaling() {
  if (!job_.measure_scaling || all_->world() == 1) return {};
  const LoneRank lone = {
      .job = job_,
      .shape = setup_.shape,
      .batch = setup_.batch,
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

std::string RankRun::TensorBoardDir() const {
  if (options_.tensorboard == "none") return "";
  if (!options_.tensorboard.empty()) return options_.tensorboard;
  return line_->writes() ? line_->Root() + "/tensorboard" : "";
}

EngineOptions RankRun::OptionsOfEngine() {
  return {.batch = setup_.batch,
          .precision = job_.precision,
          .sync = job_.sync,
          .sync_options = {.bucket_bytes = static_cast<size_t>(job_.bucket_mb) << 20,
                           .overlap = job_.overlap,
                           .servers = job_.servers,
                           .parallel = job_.parallel},
          .in_place = job_.recovery == core::Recovery::kInPlace,
          .whole = whole_ ? &*whole_ : nullptr,
          .host = &host()};
}

void RankRun::SayPlan(bool writes) {
  std::printf("%s: %zu parameters on %lld tokens (%lld sequences an epoch), %s\n",
              ToString(setup_.shape).c_str(), ParameterCount(setup_.shape),
              static_cast<long long>(setup_.data.tokens()),
              static_cast<long long>(setup_.data.size()), instruction_set_.c_str());
  std::printf("world size %d, threads a rank: %d, %s; micro-batches a step: %d of %d sequences\n",
              all_->world(), threads_.count(), all_->Describe().c_str(), setup_.batch.count,
              setup_.batch.micro_batch);
  if (setup_.place.gpu()) {
    if (!gpu_figures_->why_not().empty()) {
      std::printf("no figures of the GPU: %s\n", gpu_figures_->why_not().c_str());
    }
  } else if (!setup_.place.why_not().empty()) {
    std::printf("on CPUs: %s\n", setup_.place.why_not().c_str());
  }
  std::printf("%s\n", TellMesh(setup_.shape, setup_.mesh, [&](const Mesh& of) {
                        return TellMemory(of, writes && of.rank == 0);
                      }).c_str());
  std::fflush(stdout);
}

std::string RankRun::TellMemory(const Mesh& of, bool writes) {
  MemoryPlan memory = PlanMemory(setup_.shape, setup_.batch, job_.precision, writes, of.stage());
  if (!setup_.place.gpu()) return ToString(memory);
  memory.gradients = memory.activations = memory.posted = 0;
  return "GPU: " + ToString(PlanCudaMemory(setup_.shape, OptionsOfEngine(), of)) +
         "; host: " + ToString(memory);
}

Status RankRun::End(int code) {
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

}  // namespace lockstep::trainer
