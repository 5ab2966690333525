#include <utility>
#include <vector>

#include "base/loop/event_loop.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/jobs.h"
#include "cli/cluster/log_choice.h"
#include "cli/cluster/log_follower.h"
#include "cli/cluster/log_stream.h"
#include "cli/say.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

// What there is of one pod's log.
Status ShowOne(EventLoop* loop, kube::Transport* transport, const kube::PodView& pod,
               const LogsCommand& command, LogFilter filter) {
  if (!HasStarted(pod)) return Error::Unavailable(pod.meta.name + " waits for " + WaitsFor(pod));
  Status outcome;
  const std::optional<size_t> tail =
      command.tail ? std::optional(static_cast<size_t>(*command.tail)) : std::nullopt;
  const LogStream stream(
      transport, {.name_space = pod.meta.name_space, .pod = pod.meta.name, .tail = tail}, filter,
      ToStandardOutput(), [&](const Status& status, std::optional<WallTime>) {
        loop->PostFromAnyThread([&, status] {
          outcome = status;
          loop->Stop();
        });
      });
  loop->Run();
  if (outcome.ok()) return outcome;
  return Error{outcome.error().kind,
               "cannot read the log of " + pod.meta.name + ": " + outcome.error().message};
}

// Shows the machines one after the other. A log that cannot be read is reported, the rest is shown.
Result<int> Show(EventLoop* loop, Connection& cluster, kube::Transport* transport,
                 const LogsCommand& command, std::optional<int> machine, LogFilter filter) {
  Result<std::vector<kube::PodView>> pods = ListPods(cluster, command.name);
  if (!pods.ok()) return pods.error();
  std::vector<const kube::PodView*> list;
  for (const kube::PodView& pod : *pods) list.push_back(&pod);
  const PodsByMachine current = CurrentPods(list, machine);
  if (current.empty()) {
    return Error::NotFound("trainingjob " + command.name + " has no pods" +
                           (machine ? " of machine " + std::to_string(*machine) : "") + " now");
  }
  int code = core::kExitSuccess;
  for (const auto& [index, pod] : current) {
    const Status shown = ShowOne(loop, transport, *pod, command, filter);
    if (!shown.ok()) code = Fail(shown.error());
  }
  return code;
}

Result<int> Follow(EventLoop* loop, Connection& cluster, kube::Transport* transport,
                   const std::string& job, std::optional<int> machine, LogFilter filter) {
  const LogFollower follower(loop, &cluster, transport, job, machine, filter);
  loop->Run();
  if (!follower.outcome().ok()) return follower.outcome().error();
  return core::kExitSuccess;
}

}  // namespace

Result<int> Run(Connection& cluster, const LogsCommand& command) {
  Result<StoredJob> job = Jobs(&cluster).Get(command.name);
  if (!job.ok()) return job.error();
  Result<std::optional<int>> machine = MachineAsked(*job, command);
  if (!machine.ok()) return machine.error();
  if (command.rank) {
    const std::string why = WhyNotAlone(job->job.spec, *command.rank);
    if (!why.empty()) Say(why);
  }
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  Result<std::unique_ptr<kube::Transport>> transport = cluster.OpenTransport();
  if (!transport.ok()) return transport.error();
  const LogFilter filter(job->job.spec, command.rank);
  if (command.follow) {
    return Follow(loop->get(), cluster, transport->get(), command.name, *machine, filter);
  }
  return Show(loop->get(), cluster, transport->get(), command, *machine, filter);
}

}  // namespace lockstep::cli
