// JobWatch: follows one job on an event loop and calls back at each change.
#ifndef LOCKSTEP_CLI_CLUSTER_JOB_WATCH_H_
#define LOCKSTEP_CLI_CLUSTER_JOB_WATCH_H_

#include <functional>
#include <memory>
#include <string>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/result.h"
#include "cli/cluster/connection.h"
#include "cli/cluster/jobs.h"
#include "operator/kube/views.h"
#include "operator/kube/watch/watch.h"

namespace lockstep::cli {

// Callbacks run on the loop, and none once this is gone.
class JobWatch {
 public:
  struct Handlers {
    // Null: there is none of that name.
    std::function<void(const StoredJob* job)> on_job;
    // Following isn't possible, and won't be: not allowed, no TrainingJobs. Others are told on
    // on_problem, or on standard error, once each, and tried again.
    std::function<void(const Error&)> on_hopeless;
    std::function<void(const Error&)> on_problem = {};
  };

  JobWatch(EventLoop* loop, Connection* connection, const kube::ObjectName& job, Handlers handlers);

 private:
  void OnBatch(const kube::Batch<kube::JobView>& batch);

  Handlers handlers_;
  std::string told_;
  Lifetime lifetime_;
  kube::Reflector<kube::JobView> reflector_;  // last: its thread uses the rest
};

// Handles a problem of a watch: one that trying again cannot solve goes to `on_hopeless`; another
// is reported on standard error, unless it is `told`, the last one.
void ReportProblem(const Error& error, std::string* told,
                   const std::function<void(const Error&)>& on_hopeless);

// Returns once that very job is gone.
Status WaitUntilGone(Connection* connection, const StoredJob& job);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_JOB_WATCH_H_
