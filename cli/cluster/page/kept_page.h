// KeptPage: the page of a job that has ended, from a PageStore. The API server judges its viewer
// again: without `get` of TrainingJobs in the namespace there is no page, and without `get` of
// pods/log it has no lines. The view is read once, and nothing in it changes.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_KEPT_PAGE_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_KEPT_PAGE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
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

 private:
  void Make();

  const PageStore::Page page_;
  const uint64_t version_;  // above those of earlier views of this job, as JobPage::MakeView
  std::function<void()> notify_;
  PageServer::Handlers handlers_;
  std::optional<bool> may_see_;
  std::optional<bool> may_read_logs_;
  std::string view_;  // "": not known yet
  Lifetime lifetime_;
};

// `view` of a kept page for a viewer: with a note that it was kept, and without lines if those may
// not be read. Pure.
std::string ShownView(const std::string& view, const PageStore::Page& page, bool with_logs,
                      uint64_t version);
// In place of one that may not be seen, or cannot be read.
std::string NoView(const std::string& why, uint64_t version);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_KEPT_PAGE_H_
