#include "operator/gang/gang_link.h"

#include <utility>

#include "operator/gang/gang_job.h"

namespace lockstep::gang {

GangLink::GangLink(EventLoop* loop, const GangLinkOptions& options, Owner* owner)
    : shared_(new GangShared{
          loop, options, owner, {loop, options.max_polls}, {loop, options.max_puts}}) {}

GangLink::~GangLink() = default;

void GangLink::Set(const std::string& job, GangPeers peers) {
  std::unique_ptr<GangJob>& known = jobs_[job];
  if (!known) known = std::make_unique<GangJob>(shared_.get(), job);
  shared_->jobs = jobs_.size();
  known->Set(std::move(peers));
}

void GangLink::Forget(const std::string& job) {
  jobs_.erase(job);
  shared_->jobs = jobs_.size();
}

void GangLink::SetDesiredState(const std::string& job,
                               const std::optional<core::DesiredState>& desired) {
  auto found = jobs_.find(job);
  if (found != jobs_.end()) found->second->SetDesiredState(desired ? core::ToJson(*desired) : "");
}

bool GangLink::Accepted(const std::string& job, const core::DesiredState& desired) const {
  auto found = jobs_.find(job);
  return found != jobs_.end() && found->second->Accepted(core::ToJson(desired));
}

std::string GangLink::LastError(const std::string& job) const {
  auto found = jobs_.find(job);
  return found == jobs_.end() ? "" : found->second->last_error();
}

bool GangLink::IsUnreadable(const std::string& job) const {
  auto found = jobs_.find(job);
  return found != jobs_.end() && found->second->unreadable();
}

}  // namespace lockstep::gang
