// MpiRecorder: an owner of MPI's services that keeps what they report.
#ifndef LOCKSTEP_TESTS_WORKER_AGENT_SERVICES_MPI_RECORDER_H_
#define LOCKSTEP_TESTS_WORKER_AGENT_SERVICES_MPI_RECORDER_H_

#include <string>
#include <utility>
#include <vector>

#include "worker/agent/services/mpi_owner.h"

namespace lockstep::agent {

class MpiRecorder : public MpiOwner {
 protected:
  void OnReady(core::Generation generation) override { ready_.push_back(generation); }
  void OnFence(core::Generation generation, std::vector<core::TableEntry> entries) override {
    fences_.emplace_back(generation, std::move(entries));
  }
  void OnLost(core::Generation generation, core::Failure death) override {
    lost_.emplace_back(generation, std::move(death));
  }
  Result<std::string> Secret(core::Generation generation) override {
    return "secret of " + generation.ToString();
  }
  void KillRank(uint32_t local_rank) override { killed_.push_back(local_rank); }

  std::vector<core::Generation> ready_;
  std::vector<std::pair<core::Generation, std::vector<core::TableEntry>>> fences_;
  std::vector<std::pair<core::Generation, core::Failure>> lost_;
  std::vector<uint32_t> killed_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_TESTS_WORKER_AGENT_SERVICES_MPI_RECORDER_H_
