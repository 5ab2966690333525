// PageKeeper: keeps the page of each job that ends in a PageStore, with the rights of its own
// service account (`kubectl lockstep ui --keep`). It changes nothing in the cluster, and no job
// waits for it.
//
// A watch of all TrainingJobs says which have ended. Each of them is opened as a JobPage, whose
// view is written once its events and its logs were read to their ends. After kPatience it is
// written without the rest, and tried again after kAgain, kMostTries times in all: the page with
// more lines stays. One that cannot be written is tried again while its job exists. While the
// folder cannot be read, nothing is kept.
//
// Curves are made of the progress that the watch has seen since this process began.
//
// Bounded: kMostAtOnce pages are open, for kPatience each, with kLines of a job's log; kMostPoints
// points of progress of kMostCurves jobs. One thread.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_KEEPER_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_KEEPER_H_

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/page/job_page.h"
#include "cli/cluster/page/page_store.h"
#include "operator/kube/watch/watch.h"

namespace lockstep::cli {

class PageKeeper {
 public:
  static constexpr size_t kMostAtOnce = 4;
  static constexpr Duration kPatience = seconds(45);  // longer than pods may take to end
  static constexpr Duration kLook = milliseconds(500);
  static constexpr int kMostTries = 3;
  static constexpr Duration kAgain = minutes(1);
  static constexpr size_t kMostPoints = 256;
  static constexpr size_t kMostCurves = 1000;
  static constexpr LogRingLimits kLines{
      .lines = 400, .bytes = size_t{128} << 10, .in_all = size_t{8} << 20};

  struct Options {
    std::vector<std::string> namespaces;  // none: all
    PageStore::Limits limits;
  };

  // `sources`: loop, connection, streams, queues and store, which outlive this.
  PageKeeper(JobPage::Sources sources, Options options);
  PageKeeper(const PageKeeper&) = delete;
  PageKeeper& operator=(const PageKeeper&) = delete;

 private:
  struct Ended {
    kube::ObjectName job;
    std::string uid;
    WallTime at{};
    int tries = 0;  // that wrote a page without all of its lines
  };
  struct Open {
    Ended ended;
    std::unique_ptr<JobPage> page;
    Time until{};
  };

  struct Curve {
    kube::ObjectName job;
    std::vector<core::JobProgress> points = {};
  };

  void Follow(const std::string& name_space);
  void OnBatch(const std::string& name_space, kube::Batch<kube::JobView> batch);
  void OnJob(const StoredJob& job);
  void Remember(const StoredJob& job);
  // Opens pages of jobs that wait, and writes those that are known.
  void GoOn();
  bool Wants(const Ended& ended) const;
  void Write(const Open& open, bool whole);
  void TryAgain();
  // Said once, until another sentence is.
  void Complain(const std::string& sentence);

  JobPage::Sources sources_;
  const Options options_;
  PageStore* store_;
  std::map<std::string, Ended> waiting_;  // by UID
  std::map<std::string, Ended> later_;    // tried before
  std::map<std::string, Ended> done_;     // those that exist, and need no page any more
  std::map<std::string, Open> open_;      // by UID
  std::map<std::string, Curve> curves_;   // by UID, of jobs that run
  std::set<std::string> followed_;        // namespaces whose jobs have come
  bool readable_ = false;                 // the store, when it was looked at last
  std::string said_;
  WakeTimer go_on_;
  WakeTimer again_;
  Lifetime lifetime_;
  // Last: their threads use the rest.
  std::map<std::string, std::unique_ptr<kube::Reflector<kube::JobView>>> watches_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_PAGE_KEEPER_H_
