#include "worker/agent/services/mpi_services.h"

#include <filesystem>
#include <utility>

namespace lockstep::agent {

MpiServices::MpiServices(EventLoop* loop, Spawner* spawner, ProcessSet* processes,
                         const core::AgentConfig& config, MpiOwner* owner, const LogFn& log) {
  const core::Spec& spec = config.job.spec;
  const auto machines = static_cast<uint32_t>(spec.num_machines);
  const auto local_ranks = static_cast<uint32_t>(core::ProcessesStarted(spec));
  if (core::ServesPmi(spec)) {
    pmi_ = std::make_unique<PmiServer>(loop, config.job_uid, config.machine, machines, local_ranks,
                                       owner, log);
  }
  if (!core::ServesPmix(spec)) return;
  const Result<std::string> own = OwnProgram();
  const std::filesystem::path beside = own.ok() ? std::filesystem::path(*own).parent_path() : "";
  pmix_ = std::make_unique<PmixServer>(loop, spawner, processes,
                                       PmixServer::Options{.program = beside / pmix::kHelperProgram,
                                                           .folder = config.run_dir + "/pmix",
                                                           .job_uid = config.job_uid,
                                                           .machine = config.machine,
                                                           .machines = machines,
                                                           .processes = local_ranks},
                                       owner, log);
}

Status MpiServices::Begin(core::Generation generation) {
  if (pmi_) {
    const Status listening = pmi_->Begin(generation);
    if (!listening.ok()) return Error::Unavailable("PMI: " + listening.error().message);
  }
  if (!pmix_) return {};
  Status begun = pmix_->Begin(generation);
  if (begun.ok()) return begun;
  return Error{begun.error().kind, "mpi.start: Pmix takes " + std::string(pmix::kHelperProgram) +
                                       " beside lockstep-agent: " + begun.error().message};
}

void MpiServices::AddTo(core::ProcessIdentity* identity) const {
  const auto local_rank = static_cast<size_t>(identity->local_rank);
  if (pmi_) {
    identity->pmi_address = pmi_->address();
    identity->pmi_id = pmi_->id(static_cast<uint32_t>(local_rank));
  }
  if (pmix_ && local_rank < pmix_->variables().size()) {
    identity->pmix_variables = pmix_->variables()[local_rank];
  }
}

void MpiServices::Deliver(const core::DeliverFence& fence) {
  if (pmi_) pmi_->Deliver(fence);
  if (pmix_) pmix_->Deliver(fence);
}

bool MpiServices::Judge(uint32_t local_rank, core::Failure* death) {
  if (pmi_) return pmi_->Judge(local_rank, death);
  return pmix_ ? pmix_->Judge(local_rank, death) : death->exit_code != 0;
}

void MpiServices::Stop() {
  if (pmix_) pmix_->Stop();
}

void MpiServices::End() {
  if (pmi_) pmi_->End();
  if (pmix_) pmix_->End();
}

void MpiServices::Close() {
  if (pmix_) pmix_->Close();
}

}  // namespace lockstep::agent
