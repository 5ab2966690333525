#include "worker/agent/services/mpi_ends.h"

#include <utility>

namespace lockstep::agent {

MpiEnds::MpiEnds(EventLoop* loop, uint32_t first_rank, uint64_t ranks, MpiOwner* owner, LogFn log)
    : loop_(loop),
      first_rank_(first_rank),
      ranks_(ranks),
      owner_(owner),
      log_(std::move(log)),
      timer_(loop, [this] {
        for (const auto& [local_rank, abort] : aborts_) owner_->KillRank(local_rank);
      }) {}

void MpiEnds::OnAbort(const MpiAbort& abort) {
  log_("rank " + std::to_string(first_rank_ + abort.local_rank) + " called MPI_Abort with code " +
       std::to_string(abort.code) + (abort.text.empty() ? "" : ": " + abort.text));
  if (aborts_.emplace(abort.local_rank, abort).second && aborts_.size() == 1) {
    timer_.WakeAt(loop_->now() + kAbortPatience);
  }
}

void MpiEnds::Clear() {
  aborts_.clear();
  timer_.WakeAt(kNever);
}

bool MpiEnds::Judge(uint32_t local_rank, Stage stage, core::Failure* death) const {
  const auto abort = aborts_.find(local_rank);
  if (abort == aborts_.end()) {
    if (death->exit_code != 0) return true;
    if (!death->by_itself) return false;
    if (stage == Stage::kNeverBegan && ranks_ > 1) {
      death->cause = core::Cause::kConfiguration;
      return true;
    }
    if (stage == Stage::kWithin) {
      death->stderr_tail += "\nit ended between MPI_Init and MPI_Finalize";
    }
    return stage == Stage::kWithin;
  }
  death->cause = core::Cause::kProcessExit;
  death->exit_code = abort->second.code & 0xff;
  if (death->exit_code == 0) death->exit_code = 1;  // it ended the job all the same
  death->signal = 0;
  if (death->stderr_tail.empty()) {
    death->stderr_tail = "it called MPI_Abort with code " + std::to_string(abort->second.code) +
                         (abort->second.text.empty() ? "" : ": " + abort->second.text);
  }
  return true;
}

}  // namespace lockstep::agent
