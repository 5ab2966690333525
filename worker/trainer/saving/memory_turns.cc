#include "worker/trainer/saving/memory_turns.h"

#include <utility>

namespace lockstep::trainer {

Result<bool> MemoryTurns::IsDue(int64_t step, const Saver* saver, int threads,
                                collectives::Communicator& host) {
  if (step == job_->steps) return false;
  if (job_->memory_every) return step % *job_->memory_every == 0;
  if (step < next_look_) return false;
  MemoryPace::Decision decision;
  if (saver != nullptr) {
    const Duration cost = stall_ + saver->last_memory_write() / threads;
    decision = pace_.Decide(BootTime(), step - looked_, cost, saver->busy());
  }
  Status told = host.Broadcast({&decision, sizeof decision, collectives::DataType::kByte}, 0,
                               "checkpoint in memory");
  if (!told.ok()) return told.error();
  looked_ = step;
  next_look_ = step + decision.look;
  return decision.save != 0;
}

void MemoryTurns::OnSave(bool in_memory, Duration stall) {
  if (in_memory) stall_ = stall;
  copies_ = in_memory;
}

void MemoryTurns::OnWaitForCopy(Duration stall) {
  if (std::exchange(copies_, false)) stall_ += stall;
}

}  // namespace lockstep::trainer
