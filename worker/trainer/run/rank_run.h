// RankRun: one rank's part of a generation of a training run, from the meeting of all ranks to the
// weights' SHA-256, or to the generation's end, which its state may outlive.
#ifndef LOCKSTEP_WORKER_TRAINER_RUN_RANK_RUN_H_
#define LOCKSTEP_WORKER_TRAINER_RUN_RANK_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/engine/engine.h"
#include "worker/trainer/engine/replica.h"
#include "worker/trainer/link/agent_link.h"
#include "worker/trainer/link/evidence_signal.h"
#include "worker/trainer/link/rejoin.h"
#include "worker/trainer/process/environment.h"
#include "worker/trainer/process/parallel.h"
#include "worker/trainer/process/stop_signal.h"
#include "worker/trainer/report/gpu_figures.h"
#include "worker/trainer/report/reporter.h"
#include "worker/trainer/report/step_record.h"
#include "worker/trainer/run/options.h"
#include "worker/trainer/run/scaling.h"
#include "worker/trainer/run/setup.h"
#include "worker/trainer/run/survivors.h"
#include "worker/trainer/saving/checkpoint_line.h"
#include "worker/trainer/saving/memory_turns.h"
#include "worker/trainer/saving/resume.h"
#include "worker/trainer/saving/saver.h"

namespace lockstep::trainer {

// The members stand in the order in which they come to be.
class RankRun {
 public:
  // `rejoin`: null where the process ends with its generation. `kept`: of the last one. What is
  // pointed to outlives this.
  RankRun(const TrainOptions& options, Environment environment, Setup setup, StopSignal& stop,
          Rejoin* rejoin, std::optional<Kept> kept);
  ~RankRun();
  RankRun(const RankRun&) = delete;
  RankRun& operator=(const RankRun&) = delete;

  // The exit code.
  Result<int> Go();

  // This generation has ended, and the process may go on in the next.
  bool ended() const { return rejoin_ != nullptr && rejoin_->ended(); }

  // Ends all that acts in the generation. An error: the process cannot go on in the next.
  Status Withdraw();
  // What it goes on with, after Withdraw(). An error: it cannot.
  Result<std::optional<Kept>> TakeKept();

 private:
  bool first() const { return all_->rank() == 0; }
  // Of rank 0.
  Replica& Whole() { return whole_ ? *whole_ : *replica_; }
  // For what is in host memory.
  collectives::Communicator& host() {
    return setup_.place.host_view() == nullptr ? *all_ : *setup_.place.host_view();
  }

  // Who lost a peer hears of the end in a moment, unless it was the connection alone that broke.
  bool LivesOn(const Error& error);
  Result<int> Work();
  // GpuFigures's, if this rank has a GPU. From any thread.
  Error Judge(const Error& error);
  Status Meet();
  // Of each machine one rank.
  void WarnOfTcp() const;
  CheckpointLine::Options LineOptions() const;
  Status Begin();
  // Takes the memory that training needs.
  Status Build(bool writes);
  Status ReadState();
  // With what a rank has that outlived the last generation; false: none did.
  Result<bool> GoOn();
  // Beside which the one that trains can be made later.
  Result<std::unique_ptr<Engine>> MakeLoneEngine(const EngineOptions& options, Replica& replica,
                                                 collectives::Communicator& all);
  // In each generation anew: it may have got another GPU, or other cores.
  Status MeasureScaling();
  std::string TensorBoardDir() const;
  EngineOptions OptionsOfEngine();
  void SayPlan(bool writes);
  // What a rank of the first pipeline holds.
  std::string TellMemory(const Mesh& of, bool writes);
  Status End(int code);

  // ---- steps (rank_run_steps.cc) ----
  Result<int> Steps();
  // What follows a step.
  Status LeaveOutStep();
  // What follows a step.
  Status Settle();
  // Of the step that this run goes on from.
  Status CatchUpOnValidation();
  // Before the step's checkpoint, which says that it was.
  Status ValidateIfDue();
  Status ReplicasAreEqual();
  Error Diverged() const;
  Result<StepResult> Step();
  // The last checkpoint is copied from what the optimizer is about to write; of stages from whole_,
  // which UpdateReplica() alone writes.
  void WaitForCopy();
  Status ReadBatch(int i, std::span<int32_t> inputs, std::span<int32_t> targets) const;
  void Note(const StepResult& done, double learning_rate, Duration whole);
  // On all ranks alike.
  Result<bool> IsDueInMemory();
  Status Save(bool in_memory, bool last);
  Status UpdateReplica();
  Manifest ManifestNow() const;
  void ReportStep(bool stopping);

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
  Setup setup_;
  std::optional<AgentLink> agent_;
  std::optional<CheckpointLine> line_;
  std::optional<Replica> replica_;  // of this rank's stage
  std::optional<Replica> whole_;    // of rank 0, where that is not the model as files have it
  Position at_;
  std::string instruction_set_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<collectives::Communicator> all_;  // before what it moves is freed, it has gone
  std::optional<Saver> saver_;                      // of rank 0
  std::optional<EmptyPart> part_;                   // of one rank of each other machine
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

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_RUN_RANK_RUN_H_
