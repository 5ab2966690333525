// LogFollower: follows the logs of a job's machines, each from its current pod, until the job ends.
// A replaced machine continues with its new pod; a broken stream continues where it stopped.
// Everything runs on one loop, except the writing (log_stream.h).
#ifndef LOCKSTEP_CLI_CLUSTER_LOG_FOLLOWER_H_
#define LOCKSTEP_CLI_CLUSTER_LOG_FOLLOWER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/loop/event_loop.h"
#include "base/result.h"
#include "cli/cluster/connection.h"
#include "cli/cluster/job_watch.h"
#include "cli/cluster/log_choice.h"
#include "cli/cluster/log_stream.h"
#include "cli/log_lines.h"
#include "operator/kube/watch/watch.h"

namespace lockstep::cli {

class LogFollower {
 public:
  // `transport` is for the streams alone.
  LogFollower(EventLoop* loop, Connection* cluster, kube::Transport* transport,
              const std::string& job, std::optional<int> machine, LogFilter filter);

  // Once the loop has stopped.
  const Status& outcome() const { return outcome_; }

 private:
  // One machine's, as far as its pod has been read.
  struct Reading {
    std::string pod;
    std::string uid;
    std::optional<WallTime> last;
    std::unique_ptr<LogStream> stream;
    bool whole = false;     // read to its end
    bool retrying = false;  // a timer runs
    std::string waited_for;
  };

  void OnPods(kube::Batch<kube::PodView> batch);
  void OnJob(const StoredJob* job);
  void OnStreamEnd(int machine, const std::string& uid, const Status& status,
                   std::optional<WallTime> last);
  // Opens what can be opened, and ends when there is nothing left to wait for.
  void Advance();
  void Open(int machine, Reading* reading);
  bool IsOver(const Reading& reading) const;
  void End(const Error& error);

  EventLoop* loop_;
  kube::Transport* transport_;
  const std::string name_space_;
  const std::optional<int> machine_;
  const LogFilter filter_;
  std::map<std::string, kube::PodView> pods_;  // by name
  std::map<int, Reading> readings_;            // by machine
  bool pods_known_ = false;
  bool job_ended_ = false;
  std::string told_;
  Status outcome_;
  JobWatch job_watch_;
  kube::Reflector<kube::PodView> pod_watch_;  // last: its thread uses the rest
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_LOG_FOLLOWER_H_
