// JobStore: the records of the jobs that this operator works on, and what holds of all of them: how
// many are in each state, and which has waited longest for nodes. The controller's thread.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_JOB_STORE_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_JOB_STORE_H_

#include <prometheus/registry.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "operator/controller/jobs/job_record.h"
#include "operator/controller/metrics/job_figures.h"
#include "operator/kube/views.h"

namespace lockstep::control {

class JobStore {
 public:
  using JobKey = kube::ObjectName;

  // The registry outlives it.
  explicit JobStore(prometheus::Registry* metrics) : figures_(metrics) {}

  // Null: nothing was decided for it yet, or it is gone.
  JobRecord* Find(const JobKey& key);
  JobRecord& FindOrAdd(const JobKey& key) { return records_[key]; }
  void Forget(const JobKey& key);

  // The record is up to date with the object.
  void OnLearned(JobRecord* record) {
    figures_.SetState(record->status.state, record);
    figures_.SetSpares(record->status.machines.spares, record);
  }
  // The record's status was written, and the object has this version now.
  void OnWritten(JobRecord* record, const core::JobStatus& status, const std::string& version,
                 WallTime now);
  // A pod's end counts, though it is gone before anything was decided.
  void OnPodDeleted(const kube::PodView& pod);

  // Another object of the job was deleted, by a user or with the job itself. Because the watch of
  // jobs may be later, the job is read before any object is made anew.
  void OnOwnedDeleted(const JobKey& key, const std::string& owner_uid);

  // The object says only what this operator itself wrote, or what came before that.
  bool Knows(const kube::ObjectMeta& job) const;
  // No other job that waits for nodes is older.
  bool IsOldestWaiting(const JobRecord& record) const;

 private:
  using Place = std::pair<WallTime, JobKey>;

  static Place PlaceOf(const JobRecord& record) { return {record.created, record.name()}; }

  JobFigures figures_;
  std::map<JobKey, JobRecord> records_;
  std::set<Place> waiting_for_nodes_;  // by age
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_JOB_STORE_H_
