#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/http/http_server.h"
#include "base/http/listen_on.h"
#include "base/loop/event_loop.h"
#include "base/process/process.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/page/fleet_page.h"
#include "cli/cluster/page/job_page.h"
#include "cli/cluster/page/page_keeper.h"
#include "cli/cluster/page/page_store.h"
#include "cli/cluster/page/queue_asker.h"
#include "cli/cluster/page/viewers.h"
#include "cli/say.h"
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

// With the kubeconfig of this user alone.
constexpr const char* kNoKubectl =
    "kubectl is not in PATH, so per-rank progress and stacks are not shown";

Error Of(const std::string& option, Error error) {
  error.message = option + ": " + error.message;
  return error;
}

// For many people, until a signal asks for the end.
Status ServeMany(EventLoop* loop, const PageFile& page, const ClusterAddress& where,
                 const UiCommand& command) {
  Result<kube::ClientConfig> cluster = FindCluster(where);
  if (!cluster.ok()) return cluster.error();
  const Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  std::unique_ptr<PageServer> server;
  const std::string api_server = cluster->server;
  PageStore store(command.kept);
  Viewers viewers(std::move(*cluster), {.loop = loop,
                                        .spawner = spawner->get(),
                                        .store = command.kept.empty() ? nullptr : &store,
                                        .notify = [&] {
                                          if (server) server->Notify();
                                        }});
  server = std::make_unique<PageServer>(
      loop, page,
      PageServer::Public{
          .hosts = command.hosts,
          .judge = [&](const std::string& token, const std::string& source,
                       PageServer::Answer done) { viewers.Judge(token, source, std::move(done)); },
          .forwarded = command.forwarded},
      [&](const PageServer::Subject& subject) { return viewers.Find(subject); });
  // On the same thread, so that it answers only while the page can; with places of its own.
  HttpServer health(loop, {.keep_alive = false},
                    [](const HttpRequest& request, HttpResponder respond) {
                      if (request.path == "/healthz") return respond.Send({.body = "ok\n"});
                      respond.Send({.status = 404, .body = "only /healthz\n"});
                    });
  if (Status listens = server->Listen(command.serve); !listens.ok()) {
    return Of("--serve", listens.error());
  }
  if (!command.health.empty()) {
    if (Status listens = ListenOn(&health, command.health); !listens.ok()) {
      return Of("--health", listens.error());
    }
    Say("probes are answered on port " + std::to_string(health.endpoint().port()));
  }
  Say("the page of " + api_server + " is served on port " + std::to_string(server->port()));
  loop->Run();
  return {};
}

// Until a signal asks for the end.
Status KeepPages(EventLoop* loop, const ClusterAddress& where, const UiCommand& command) {
  Result<std::unique_ptr<Connection>> cluster = Connection::Open(where);
  if (!cluster.ok()) return cluster.error();
  const Result<std::unique_ptr<kube::Transport>> streams = (*cluster)->OpenTransport();
  if (!streams.ok()) return streams.error();
  PageStore store(command.keep);
  QueueAsker queues(loop, cluster->get());
  const PageKeeper keeper({.loop = loop,
                           .connection = cluster->get(),
                           .streams = streams->get(),
                           .queues = &queues,
                           .store = &store},
                          {.namespaces = command.keep_namespaces,
                           .limits = {.jobs = static_cast<size_t>(command.keep_jobs),
                                      .age = hours(24) * command.keep_days}});
  loop->Run();
  return {};
}

}  // namespace

Result<int> Ui(const ClusterAddress& where, const UiCommand& command) {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  StopOnSignals(loop->get());
  if (!command.keep.empty()) {
    const Status kept = KeepPages(loop->get(), where, command);
    return kept.ok() ? Result<int>(core::kExitSuccess) : kept.error();
  }
  const std::optional<PageFile> page = EmbeddedPage();
  if (!page) return Error::Unavailable(kNoPage);
  if (!command.serve.empty()) {
    const Status served = ServeMany(loop->get(), *page, where, command);
    return served.ok() ? Result<int>(core::kExitSuccess) : served.error();
  }
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
  QueueAsker queues(loop->get(), cluster->get());
  const JobPage::Sources sources{.loop = loop->get(),
                                 .spawner = spawner->get(),
                                 .connection = cluster->get(),
                                 .streams = streams->get(),
                                 .queues = &queues,
                                 .where = where,
                                 .kubectl = FindKubectl(),
                                 .no_exec = kNoKubectl,
                                 .notify = [&server] {
                                   if (server) server->Notify();
                                 }};
  std::unique_ptr<JobPage> one;
  std::unique_ptr<FleetPage> all;
  if (command.name.empty()) {
    all =
        std::make_unique<FleetPage>(sources, FleetPage::Options{.only = where.name_space,
                                                                .own = (*cluster)->name_space(),
                                                                .another = "name another with -n"});
    server = std::make_unique<PageServer>(loop->get(), *page,
                                          [&all](const PageServer::Subject& subject) {
                                            return all->Find(subject.job, subject.visit);
                                          });
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
