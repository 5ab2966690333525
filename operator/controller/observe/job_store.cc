#include "operator/controller/observe/job_store.h"

#include "operator/controller/observe/observe_pod.h"
#include "operator/kube/resource_version.h"

namespace lockstep::control {

JobRecord* JobStore::Find(const JobKey& key) {
  const auto found = records_.find(key);
  return found == records_.end() ? nullptr : &found->second;
}

void JobStore::Forget(const JobKey& key) {
  if (JobRecord* record = Find(key); record != nullptr) {
    figures_.SetState(std::nullopt, record);
    figures_.SetSpares(0, record);
    records_.erase(key);
  }
  std::erase_if(waiting_for_nodes_, [&](const auto& each) { return each.second == key; });
}

void JobStore::OnWritten(JobRecord* record, const core::JobStatus& status,
                         const std::string& version, WallTime now) {
  figures_.OnWritten(record->status, status, now - record->created);
  if (status.state == core::JobState::kPending && !status.attempts.empty()) {
    waiting_for_nodes_.insert(PlaceOf(*record));
  } else {
    waiting_for_nodes_.erase(PlaceOf(*record));
  }
  // The server's answer is the sent object in its next version, so it is not read again.
  record->status = status;
  record->resource_version = version;
}

void JobStore::OnPodDeleted(const kube::PodView& pod) {
  JobRecord* record = Find({pod.meta.name_space, pod.job});
  if (record == nullptr || record->uid != pod.meta.owner_uid || pod.machine < 0) return;
  const MachineAttempt key{static_cast<uint32_t>(pod.machine), pod.attempt};
  record->notes.vanished.insert_or_assign(key, ObservationOf(pod));
}

void JobStore::OnOwnedDeleted(const JobKey& key, const std::string& owner_uid) {
  JobRecord* record = Find(key);
  if (record != nullptr && record->uid == owner_uid) record->uncertain = true;
}

bool JobStore::Knows(const kube::ObjectMeta& job) const {
  const auto record = records_.find({job.name_space, job.name});
  return record != records_.end() && record->second.uid == job.uid &&
         kube::Covers(record->second.resource_version, job.resource_version);
}

bool JobStore::IsOldestWaiting(const JobRecord& record) const {
  return waiting_for_nodes_.empty() || *waiting_for_nodes_.begin() >= PlaceOf(record);
}

}  // namespace lockstep::control
