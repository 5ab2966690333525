// JobPage: the page of one job on a cluster, from what this user may read there: a watch of the job
// and of its pods, its events, logs as they are looked at, and the agents by kubectl exec. What is
// not allowed, and what does not answer, is a sentence on the page. One thread, the loop's.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_JOB_PAGE_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_JOB_PAGE_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "base/process/process.h"
#include "cli/cluster/connection.h"
#include "cli/cluster/job_watch.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/page/gang_follower.h"
#include "cli/cluster/page/page_store.h"
#include "cli/cluster/page/pod_logs.h"
#include "cli/cluster/page/queue_places.h"
#include "cli/cluster/page/stored_gang.h"
#include "cli/run/output/history.h"
#include "cli/ui/page_server.h"
#include "cli/ui/stack_asker.h"
#include "cli/ui/view.h"
#include "operator/kube/watch/watch.h"

namespace lockstep::cli {

class JobPage final : private GangFollower::Owner, private PodLogs::Owner {
 public:
  // How long the first view waits for events and rights.
  static constexpr Duration kFirstView = seconds(3);

  struct Sources {
    EventLoop* loop = nullptr;   // all of these must outlive it
    Spawner* spawner = nullptr;  // null: no kubectl is ever run
    Connection* connection = nullptr;
    kube::Transport* streams = nullptr;  // for logs
    QueueAsker* queues = nullptr;
    ClusterAddress where = {};  // for kubectl
    std::string kubectl = {};   // its path; "": there is none
    std::string no_exec = {};   // the sentence that says so
    LogRingLimits lines = {};
    PageStore* store = nullptr;         // of kept pages; null: none are kept
    std::function<void()> notify = {};  // the version has changed
  };

  // `past`: progress of this job that was seen before.
  JobPage(Sources sources, kube::ObjectName job, std::vector<core::JobProgress> past = {});
  ~JobPage();
  JobPage(const JobPage&) = delete;
  JobPage& operator=(const JobPage&) = delete;

  const PageServer::Handlers& handlers() const { return handlers_; }
  // The job, once it is known.
  const std::optional<StoredJob>& job() const { return job_; }
  // Reads what an ended job's page can have: the logs of its first machines, and the events. False:
  // not all of it has come, so ask again.
  bool ReadAll();
  // The whole view, with the last lines of each rank that were read. The view is known.
  std::string Whole();

 private:
  void OnGang(const core::GangStatus& gang, Time born) override;
  void OnGangBeat() override;
  void OnGangLost(const std::string& why) override;
  void OnLogLine(int machine, std::optional<WallTime> at, std::string_view line) override;
  void OnLogRead(const Status& status) override;

  struct LogQuestion {
    std::optional<uint32_t> rank;
    uint64_t after = 0;
    PageServer::Answer answer;
  };

  void MakeView(const StoredJob& job);
  ViewJob ViewJobOf(const StoredJob& job) const;
  void OnJob(const StoredJob* job);
  void OnJobGone();
  void OnJobProblem(const Error& error);
  void OnPods(kube::Batch<kube::PodView> batch);
  void OnPodsProblem(const Error& error);
  void ShowPods();
  // Machine 0's agent, if it may be asked.
  void FollowGang();
  // Its place, while it waits in a queue.
  void ShowQueue();
  // ---- events and rights ----
  void AskEvents();
  void OnEvents(const kube::ApiResult<std::string>& answer);
  void AskWhetherExecIsAllowed();
  // ---- what the page asks ----
  void Log(std::optional<uint32_t> rank, uint64_t after, PageServer::Answer answer);
  void AnswerLogs();
  void Stacks(std::optional<uint32_t> rank, const PageServer::Answer& answer);

  void ShowGenerations();
  // "" takes the note away.
  void Note(const char* about, std::string sentence);
  void ShowNotes();
  bool HasAll() const;
  std::string Missing(const char* resource, const char* verb, const char* hidden) const;
  PodsByMachine CurrentPodsOf() const;
  void Changed();
  // The first view is whole, or late.
  void Ready(const char* part);

  Sources sources_;
  const kube::ObjectName name_;
  PageServer::Handlers handlers_;
  DocumentClock clock_;
  const std::vector<core::JobProgress> past_;
  std::optional<StoredJob> job_;
  Time job_heard_{};
  History history_;  // from the status and machine 0
  History told_;     // from machine 0
  std::unique_ptr<View> view_;
  std::set<std::string> awaited_ = {"events", "pods", "rights"};
  std::map<std::string, std::string> notes_;  // by what they are about
  std::map<std::string, kube::PodView> pods_;
  bool pods_known_ = false;
  std::map<std::string, int64_t> events_;  // how often each was said, by its UID
  bool asking_events_ = false;
  Time events_asked_{};
  std::optional<Time> ended_;  // when this page learnt it
  bool events_whole_ = false;  // asked so long after the end that the last one has come
  bool may_exec_ = false;
  std::string exec_note_;  // why not
  QueuePlaces places_;
  std::list<LogQuestion> log_questions_;
  PodLogs logs_;
  StackAsker stacks_;
  GangFollower gang_;
  WakeTimer events_timer_;
  WakeTimer first_timer_;
  WakeTimer logs_timer_;
  Lifetime lifetime_;
  std::unique_ptr<JobWatch> job_watch_;
  std::unique_ptr<kube::Reflector<kube::PodView>> pod_watch_;  // last: their threads use the rest
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_JOB_PAGE_H_
