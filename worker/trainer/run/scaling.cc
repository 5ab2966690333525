#include "worker/trainer/run/scaling.h"

#include <utility>

#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/model/gpt.h"

namespace lockstep::trainer {

namespace {

constexpr int kFirstSteps = 1;  // which do not count, as in training
constexpr int kSteps = 4;       // which do

// What rank 0 tells the others after each step, so that none waits for longer than a step.
enum Word : int64_t { kMore, kDone };

Status Tell(int64_t& word, collectives::Communicator& host) {
  return host.Broadcast({&word, sizeof word, collectives::DataType::kByte}, 0, "rank 0 alone");
}

// Until rank 0 is done.
Status Wait(collectives::Communicator& host) {
  int64_t word = kMore;
  while (word == kMore) {
    if (Status heard = Tell(word, host); !heard.ok()) return heard;
  }
  return {};
}

// A world of one whose model is that of a run that begins.
class AloneRun {
 public:
  explicit AloneRun(const LoneRank& lone) : lone_(lone), replica_(lone.shape) {
    InitialiseParameters(lone.shape, static_cast<uint64_t>(lone.job.seed), replica_.parameters);
  }

  Status Open() {
    const BatchPlan& gang = lone_.batch;
    Result<BatchPlan> batch =
        PlanBatches(int64_t{gang.mine} * gang.micro_batch, gang.micro_batch, 0, 1);
    if (!batch.ok()) return batch.error();
    batch_ = *batch;
    collectives::Options world;
    world.backend = collectives::Backend::kGloo;
    Result<std::unique_ptr<collectives::Communicator>> alone = collectives::Connect(world);
    if (!alone.ok()) return alone.error();
    alone_ = std::move(*alone);
    EngineOptions options;
    options.batch = batch_;
    options.precision = lone_.job.precision;
    options.sync_options.bucket_bytes = static_cast<size_t>(lone_.job.bucket_mb) << 20;
    options.sync_options.overlap = lone_.job.overlap;
    Result<std::unique_ptr<Engine>> engine = lone_.make_engine(options, replica_, *alone_);
    if (!engine.ok()) return engine.error();
    engine_ = std::move(*engine);
    return {};
  }

  // How long it took.
  Result<Duration> Step() {
    const Time began = BootTime();
    StepOptions options;
    options.micro_batches = batch_.count;
    options.t = ++t_;
    options.learning_rate = lone_.job.learning_rate;
    options.clip = lone_.job.clip;
    options.adamw.weight_decay = lone_.job.weight_decay;
    Result<StepResult> done = engine_->Step(options, lone_.read);
    if (!done.ok()) return done.error();
    return BootTime() - began;
  }

  int64_t tokens() const { return batch_.global_batch * lone_.shape.context; }

 private:
  const LoneRank& lone_;
  Replica replica_;
  BatchPlan batch_;
  std::unique_ptr<collectives::Communicator> alone_;
  std::unique_ptr<Engine> engine_;  // of all of these
  int64_t t_ = 0;
};

Result<double> Measure(const LoneRank& lone, collectives::Communicator& host) {
  AloneRun run(lone);
  if (Status opened = run.Open(); !opened.ok()) return opened.error();
  Duration took{};
  bool whole = true;
  for (int i = 0; whole && i < kFirstSteps + kSteps; ++i) {
    Result<Duration> step = run.Step();
    if (!step.ok()) return step.error();
    if (i >= kFirstSteps) took += *step;
    int64_t word = kMore;
    if (Status told = Tell(word, host); !told.ok()) return told.error();
    whole = !lone.stopped();
  }
  int64_t word = kDone;
  if (Status told = Tell(word, host); !told.ok()) return told.error();
  return whole && took > Duration::zero()
             ? static_cast<double>(kSteps * run.tokens()) / Seconds(took)
             : 0;
}

}  // namespace

Status CheckScaling(const core::Trainer& job, const Mesh& mesh) {
  if (!job.measure_scaling || (mesh.stages == 1 && mesh.shards == 1)) return {};
  return Error::Invalid(
      "a rank with a part of the model cannot run alone: leave measureScaling out, or write 1 "
      "for parallel.pipeline and parallel.tensorShards");
}

Result<double> MeasureAlone(const LoneRank& lone, collectives::Communicator& host) {
  if (host.rank() == 0) return Measure(lone, host);
  Status waited = Wait(host);
  if (!waited.ok()) return waited.error();
  return 0.0;
}

void ScalingMeter::OnStep(const StepRecord& record) {
  if (++steps_ == 1) return;
  tokens_ += record.my_tokens;
  took_ += record.whole - record.checkpoint;
}

std::optional<Scaling> ScalingMeter::scaling() const {
  if (took_ <= Duration::zero()) return std::nullopt;
  return Scaling{.together = static_cast<double>(tokens_) / Seconds(took_), .alone = alone_};
}

}  // namespace lockstep::trainer
