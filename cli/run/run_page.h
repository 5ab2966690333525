// RunPage: what `lockstep run` keeps for its page, its report and `lockstep logs`, and the page's
// server where one is asked for. It only listens: nothing here changes the run, and nothing waits
// for a browser but Linger, for at most kLinger once the run is over. One thread.
#ifndef LOCKSTEP_CLI_RUN_RUN_PAGE_H_
#define LOCKSTEP_CLI_RUN_RUN_PAGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/process/process.h"
#include "cli/run/output/history.h"
#include "cli/ui/bindings.h"
#include "cli/ui/page_server.h"
#include "cli/ui/stack_asker.h"
#include "cli/ui/view.h"

namespace lockstep::cli {

class RunPage {
 public:
  static constexpr Duration kLinger = milliseconds(2500);

  struct Sources {
    EventLoop* loop = nullptr;
    Spawner* spawner = nullptr;
    const History* history = nullptr;          // must outlive this, as the others must
    std::shared_ptr<const Bindings> bindings;  // null where machines are other computers
    bool served = false;  // Serve will be called: else only what a report holds is kept
    // The agents that run, and how each is asked.
    std::function<std::vector<StackAsker::Machine>()> agents;
  };

  RunPage(const ViewJob& job, Time began, Sources sources);
  RunPage(const RunPage&) = delete;
  RunPage& operator=(const RunPage&) = delete;

  // From here on the page is served on this port of 127.0.0.1; 0: on a free one. Conflict when it
  // is taken.
  Status Serve(uint16_t port, const PageFile& page);
  // Of the page, with its token; "" when it is not served.
  std::string address() const { return server_ ? server_->address() : ""; }

  void OnStatus(const core::GangStatus& gang, Time born);
  void OnHistory();
  void OnJob(const core::JobStatus& status);
  void OnEvent(std::string_view text);
  // A line of the machine's agent, without its end.
  void OnLine(uint32_t machine, std::string_view line);
  void OnEnd(Time at, int exit_code);

  // The newest lines of a rank, or of all, in the form of docs/internals/page.md.
  Result<std::string> Log(std::optional<uint32_t> rank, uint64_t after) const;
  // The whole view, for the report.
  std::string Saved() { return view_.Json(0, BootTime()); }
  // Whether a page that is looked at has yet to get the last view.
  bool owes() const { return server_ && server_->Owes(); }

 private:
  void Notify();

  Sources sources_;
  View view_;
  StackAsker stacks_;
  std::unique_ptr<PageServer> server_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_RUN_PAGE_H_
