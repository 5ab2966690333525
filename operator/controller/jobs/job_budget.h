// JobBudget: bounds the memory that TrainingJobs of tenants take. Ordinary jobs are not counted. Of
// the room for large ones, a namespace gets at most half of what the others have left: alone half
// of it, the next a quarter, and so on, so that no namespace takes all. A job that has begun is
// always kept. Thread-safe.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_JOBS_JOB_BUDGET_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_JOBS_JOB_BUDGET_H_

#include <cstddef>
#include <map>
#include <string>

#include "base/thread_annotations.h"
#include "operator/kube/views.h"

namespace lockstep::control {

class JobBudget {
 public:
  static constexpr size_t kOrdinary = size_t{64} << 10;
  static constexpr size_t kRoom = size_t{64} << 20;

  // The most memory of a job: its text, and the tree of values read from it.
  static size_t CostOf(const kube::JobView& job);

  // Counts the job as it is now, in place of the last count for its name. If there is no room, only
  // the status of its text stays, with the reason.
  void Admit(kube::JobView& job);
  void Release(const kube::ObjectName& job);
  // All jobs of a namespace, or of all (""), will be admitted anew.
  void Clear(const std::string& name_space);

 private:
  void Count(const kube::ObjectName& job, size_t cost) REQUIRES(mutex_);
  void Uncount(const kube::ObjectName& job) REQUIRES(mutex_);

  Mutex mutex_;
  std::map<kube::ObjectName, size_t> costs_ GUARDED_BY(mutex_);  // of those that are counted
  std::map<std::string, size_t> by_namespace_ GUARDED_BY(mutex_);
  size_t all_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_JOBS_JOB_BUDGET_H_
