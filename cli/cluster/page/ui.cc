#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/loop/event_loop.h"
#include "base/process/process.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/page/fleet_page.h"
#include "cli/cluster/page/job_page.h"
#include "cli/ui/page_file.h"
#include "cli/ui/page_server.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

// "" if there is none.
std::string FindKubectl() {
  const char* path = std::getenv("PATH");
  const auto found = FindExecutable("kubectl", path == nullptr ? "" : path, "");
  const auto* file = std::get_if<std::string>(&found);
  return file == nullptr ? "" : *file;
}

}  // namespace

Result<int> Ui(const ClusterAddress& where, const UiCommand& command) {
  const std::optional<PageFile> page = EmbeddedPage();
  if (!page) return Error::Unavailable(kNoPage);
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  StopOnSignals(loop->get());
  Result<std::unique_ptr<Connection>> cluster = Connection::Open(where);
  if (!cluster.ok()) return cluster.error();
  if (!command.name.empty()) {
    const Result<StoredJob> job = Jobs(cluster->get()).Get(command.name);
    if (!job.ok()) return job.error();
  }
  const Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  const Result<std::unique_ptr<kube::Transport>> streams = (*cluster)->OpenTransport();
  if (!streams.ok()) return streams.error();
  std::unique_ptr<PageServer> server;
  const JobPage::Sources sources{.loop = loop->get(),
                                 .spawner = spawner->get(),
                                 .connection = cluster->get(),
                                 .streams = streams->get(),
                                 .where = where,
                                 .kubectl = FindKubectl(),
                                 .notify = [&server] {
                                   if (server) server->Notify();
                                 }};
  std::unique_ptr<JobPage> one;
  std::unique_ptr<FleetPage> all;
  if (command.name.empty()) {
    all = std::make_unique<FleetPage>(sources, where.name_space);
    server = std::make_unique<PageServer>(
        loop->get(), *page, [&all](const std::string& job) { return all->Find(job); });
  } else {
    one = std::make_unique<JobPage>(sources,
                                    kube::ObjectName{(*cluster)->name_space(), command.name});
    server = std::make_unique<PageServer>(loop->get(), *page, one->handlers());
  }
  const Status served = server->ServeUntilStopped(command.port);
  if (!served.ok()) return served.error();
  return core::kExitSuccess;
}

}  // namespace lockstep::cli
