// What a rank does at each step, and after it.
#include <cstdio>
#include <utility>

#include "core/exit_codes.h"
#include "core/terms/skipped_steps.h"
#include "worker/trainer/collectives/agreed.h"
#include "worker/trainer/run/rank_run.h"

namespace lockstep::trainer {

Result<int> RankRun::Steps() {
  if (went_on_) {
    // What the last generation left undone after the step, or did and was not heard to do.
    record_ = untold_ && untold_->step == at_.step ? *untold_ : StepRecord{};
    if (Status settled = Settle(); !settled.ok()) return settled.error();
    if (stopping_) return core::kExitStopped;
  } else if (Status missed = CatchUpOnValidation(); !missed.ok()) {
    return missed.error();
  }
  while (at_.step < job_.steps) {
    if (core::SkipsStep(environment_.skip_steps, at_.step + 1)) {
      if (Status settled = LeaveOutStep(); !settled.ok()) return settled.error();
      continue;
    }
    Result<StepResult> done = Step();
    if (!done.ok()) return done.error();
    skipped_in_a_row_ = done->skipped ? skipped_in_a_row_ + 1 : 0;
    if (skipped_in_a_row_ > options_.max_skipped) return Agreed(Diverged(), host());
    stopping_ = done->stop;
    untold_ = record_;
    if (Status settled = Settle(); !settled.ok()) return settled.error();
    if (stopping_) return core::kExitStopped;
  }
  return core::kExitSuccess;
}

// The step counts, and its data is passed over. Its figures are none.
Status RankRun::LeaveOutStep() {
  record_ = {.loaded = std::exchange(loaded_, Duration::zero())};
  untold_.reset();
  ++at_.step;
  at_.cursor += setup_.batch.global_batch;
  ++at_.skipped;
  if (first()) {
    std::printf("step %lld left out: LOCKSTEP_SKIP_STEPS is %s\n", static_cast<long long>(at_.step),
                environment_.skip_steps.c_str());
  }
  return Settle();
}

Status RankRun::Settle() {
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

Status RankRun::CatchUpOnValidation() {
  record_ = {};
  if (at_.validated != at_.step) {
    if (Status validated = ValidateIfDue(); !validated.ok()) return validated;
  }
  if (record_.validation) reporter_.Tell(*record_.validation);
  return {};
}

Status RankRun::ValidateIfDue() {
  if (!setup_.validator || !setup_.validator->IsDue(at_.step)) return {};
  Result<Validation> done = setup_.validator->Run(at_.step, *engine_, setup_.mesh, host(),
                                                  [this] { reporter_.TellAlive(); });
  if (!done.ok()) return done.error();
  at_.validated = at_.step;
  record_.validation = *done;
  reporter_.Say(*done);
  return {};
}

Status RankRun::ReplicasAreEqual() {
  Result<uint64_t> hash = engine_->HashOfReplica();
  return hash.ok() ? CompareReplicas(*hash, host(), setup_.mesh.ranks()) : hash.error();
}

Error RankRun::Diverged() const {
  return Error::Internal("the loss was no finite number in " +
                         std::to_string(options_.max_skipped + 1) + " steps in a row, at step " +
                         std::to_string(at_.step) +
                         "; lower learningRate or clip, or look at the data");
}

Result<StepResult> RankRun::Step() {
  record_ = {.loaded = std::exchange(loaded_, Duration::zero())};
  const Time began = BootTime();
  StepOptions step;
  step.micro_batches = setup_.batch.count;
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
  at_.cursor += setup_.batch.global_batch;
  ++(done->skipped ? at_.skipped : at_.optimizer_steps);
  if (done->skipped && first()) {
    std::fprintf(stderr, "lockstep-trainer: step %lld skipped: loss %g, gradient norm %g\n",
                 static_cast<long long>(at_.step), done->loss, done->gradient_norm);
  }
  Note(*done, step.learning_rate, BootTime() - began);
  return done;
}

void RankRun::WaitForCopy() {
  if (!saver_ || whole_) return;
  const Time began = BootTime();
  saver_->WaitForCopy();
  const Duration stall = BootTime() - began;
  memory_turns_->OnWaitForCopy(stall);
  record_.checkpoint += stall;
}

Status RankRun::ReadBatch(int i, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  const auto tokens = static_cast<size_t>(setup_.shape.context);
  for (int b = 0; b < setup_.batch.micro_batch; ++b) {
    const size_t from = static_cast<size_t>(b) * tokens;
    Status read = setup_.data.Read(setup_.batch.SampleOf(at_.cursor, i) + b,
                                   inputs.subspan(from, tokens), targets.subspan(from, tokens));
    if (!read.ok()) return read;
  }
  // While this one is computed: each sequence may take a file server a millisecond.
  const BatchPlan& batch = setup_.batch;
  const int64_t next = i + 1 < batch.mine ? batch.SampleOf(at_.cursor, i + 1)
                                          : batch.SampleOf(at_.cursor + batch.global_batch, 0);
  for (int b = 0; b < batch.micro_batch; ++b) setup_.data.Prefetch(next + b);
  return {};
}

void RankRun::Note(const StepResult& done, double learning_rate, Duration whole) {
  record_.step = at_.step;
  record_.total_steps = job_.steps;
  record_.loss = done.loss;
  record_.gradient_norm = done.gradient_norm;
  record_.learning_rate = learning_rate;
  record_.skipped = at_.skipped;
  record_.all_tokens = setup_.batch.global_batch * setup_.shape.context;
  record_.my_tokens = record_.all_tokens / all_->world();
  record_.flops_per_token = FlopsPerToken(setup_.shape);
  record_.pipeline = setup_.mesh.ranks() > 1;
  if (gpu_figures_) record_.peak_flops = gpu_figures_->peak_flops();
  record_.data = done.times.data;
  record_.forward = done.times.forward;
  record_.backward = done.times.backward;
  record_.exposed = done.waited;
  record_.optimizer = done.updating;
  record_.whole = whole;
}

Result<bool> RankRun::IsDueInMemory() {
  if (!line_->in_memory()) return false;
  return memory_turns_->IsDue(at_.step, saver_ ? &*saver_ : nullptr, threads_.count(), host());
}

Status RankRun::Save(bool in_memory, bool last) {
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

Status RankRun::UpdateReplica() {
  if (saver_) saver_->WaitForCopy();
  return engine_->UpdateReplica();
}

Manifest RankRun::ManifestNow() const {
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
  manifest.data = setup_.data.Fingerprint();
  manifest.world = all_->world();
  manifest.pipeline = setup_.mesh.stages;
  manifest.tensor = setup_.mesh.tensor;
  manifest.tensor_shards = setup_.mesh.shards;
  manifest.global_batch = setup_.batch.global_batch;
  manifest.micro_batch = setup_.batch.micro_batch;
  return manifest;
}

void RankRun::ReportStep(bool stopping) {
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

}  // namespace lockstep::trainer
