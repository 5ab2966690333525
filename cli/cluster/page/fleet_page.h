// FleetPage: the jobs of all namespaces that this user may list, as a table of the page, and the
// page of each of them once somebody opens it (JobPage). If there is a PageStore, jobs that were
// deleted are rows, too, and an ended job's page is the kept one (KeptPage).
//
// Bounded: kMostJobs rows, kMostNamespaces watches where the cluster as a whole may not be listed,
// and `most_open` pages of jobs. One more takes the place of the one that was asked for longest
// ago, but of none that somebody shows (PageServer::kShown). Each is closed kIdle after it was
// asked for last. One thread.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_FLEET_PAGE_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_FLEET_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/page/job_page.h"
#include "cli/cluster/page/kept_page.h"
#include "cli/cluster/page/queue_places.h"
#include "cli/ui/page_server.h"
#include "operator/kube/api.h"
#include "operator/kube/watch/watch.h"

namespace lockstep::cli {

// A job as the table shows it, in the form of docs/internals/page.md. `job` may be one that cannot
// be read: then `problem` says why.
std::string FleetRow(const StoredJob& job, const std::string& problem);

class FleetPage {
 public:
  static constexpr size_t kMostJobs = 2000;
  static constexpr size_t kMostNamespaces = 64;
  static constexpr size_t kMostOpen = 16;
  static constexpr Duration kIdle = minutes(1);
  static constexpr Duration kCalm = milliseconds(500);  // between two versions

  struct Options {
    std::string only{};     // the namespace that is shown; "": all
    std::string own{};      // the one that is shown if no other is known
    std::string another{};  // how to name another one: "name another with -n"
    size_t most_open = kMostOpen;
  };

  FleetPage(JobPage::Sources sources, Options options);
  FleetPage(const FleetPage&) = delete;
  FleetPage& operator=(const FleetPage&) = delete;

  // "": the table; "NAMESPACE/NAME": the page of a job that it has. Until the jobs are known, one
  // that waits. Unavailable: the page is not open, and there is no place for it.
  Result<const PageServer::Handlers*> Find(const std::string& job, PageServer::Visit visit);
  // When the table, or the page of one of its jobs, was asked for last; long ago: nobody shows it.
  Time asked() const;
  // How many pages of jobs it has made.
  uint64_t made() const { return made_; }

 private:
  using Watch = std::unique_ptr<kube::Reflector<kube::JobView>>;
  struct Row {
    std::string text;                      // JSON without the job's place in a queue
    std::optional<QueuedJob> queued = {};  // it waits there
    std::string ended = {};                // its UID, once it has ended
  };
  struct Open {
    std::unique_ptr<JobPage> page;  // or a kept one
    std::unique_ptr<KeptPage> kept;
    Time asked{};

    const PageServer::Handlers& handlers() const {
      return kept ? kept->handlers() : page->handlers();
    }
  };

  void Follow(const std::string& name_space);
  void OnBatch(const std::string& name_space, kube::Batch<kube::JobView> batch);
  void OnProblem(const std::string& name_space, const Error& error);
  // Where the cluster as a whole may not be listed.
  void AskNamespaces();
  void AskWhetherListIsAllowed(const std::string& name_space);
  // In which queues jobs wait now.
  void FollowQueues();
  void Note(const std::string& about, std::string sentence);
  void Changed();
  // Whether this namespace is listed, and its jobs have not come yet.
  bool Awaits(const std::string& job) const;
  // The kept page of a job that has ended; null: there is none that this viewer may list.
  const PageStore::Page* FindKept(const std::string& job) const;
  std::vector<const PageStore::Page*> KeptJobs() const;
  void CloseIdle();
  bool HasPlace();
  const PageServer::Handlers* OpenJob(const std::string& job);
  // The jobs are known: the pages that wait for that.
  void OpenAwaited();
  std::string Json() const;

  JobPage::Sources sources_;
  const Options options_;
  PageServer::Handlers handlers_;
  uint64_t version_ = 0;
  std::map<std::string, Row> rows_;  // by NAMESPACE/NAME
  std::map<std::string, std::string> notes_;
  std::map<std::string, Open> open_;
  std::set<std::string> awaited_;       // jobs that were asked for before any was known
  std::map<std::string, bool> listed_;  // by namespace: its jobs have come, or may not be listed
  uint64_t made_ = 0;
  Time asked_ = BootTime();  // the table itself
  QueuePlaces places_;
  WakeTimer calm_;
  WakeTimer idle_;
  Lifetime lifetime_;
  std::map<std::string, Watch> watches_;  // by namespace; last: their threads use the rest
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_FLEET_PAGE_H_
