// KeptPage: the page of a job that has ended, from a PageStore. The API server judges its viewer
// again: without `get` of TrainingJobs in the namespace there is no page, without `get` of pods/log
// it has no lines, and without `list` of events no events. A question that has no answer is asked
// again. The file is read at each request, because a viewer may have many such pages open.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_KEPT_PAGE_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_KEPT_PAGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "cli/cluster/connection.h"
#include "cli/cluster/page/page_store.h"
#include "cli/ui/page_server.h"

namespace lockstep::cli {

class KeptPage {
 public:
  // `connection` must outlive this. `notify`: the view is known.
  KeptPage(EventLoop* loop, Connection* connection, PageStore::Page page,
           std::function<void()> notify);
  KeptPage(const KeptPage&) = delete;
  KeptPage& operator=(const KeptPage&) = delete;

  const PageServer::Handlers& handlers() const { return handlers_; }
  const std::string& uid() const { return page_.uid; }

 private:
  static constexpr Duration kRetry = seconds(2);

  void Ask();
  bool known() const;
  std::string Json() const;

  EventLoop* loop_;
  Connection* connection_;
  const PageStore::Page page_;
  const uint64_t version_;  // above those of earlier views of this job, as JobPage::MakeView
  std::function<void()> notify_;
  PageServer::Handlers handlers_;
  std::map<std::string, bool> allowed_;  // by resource
  WakeTimer retry_;
  Lifetime lifetime_;
};

// What a viewer may read of a kept page.
struct ShownParts {
  bool logs = false;
  bool events = false;
};

// `view` of a kept page for a viewer: with a note that it was kept, and without the parts that may
// not be read. Pure.
std::string ShownView(const std::string& view, const PageStore::Page& page, ShownParts parts,
                      uint64_t version);
// In place of one that may not be seen, or cannot be read.
std::string NoView(const std::string& why, uint64_t version);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_KEPT_PAGE_H_
