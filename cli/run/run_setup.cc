#include "cli/run/run_setup.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/file.h"
#include "base/net/route.h"
#include "base/text/endpoint.h"
#include "cli/run/machines/agent_processes.h"
#include "core/model/names.h"

namespace lockstep::cli {
namespace {

Result<Key> RandomKey() {
  Key key{};
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
    return ErrnoError("getrandom", errno);
  }
  return key;
}

// Whoever starts an agent on another node makes it a folder there.
constexpr const char* kFolderThere = "/unset";

constexpr size_t kMaxHosts = size_t{16} << 20;  // lists of blocked names have a few

}  // namespace

Result<RunSetup> PrepareRun(uint32_t machines, const Nodes& nodes, const std::string& agent) {
  Result<Key> key = RandomKey();
  if (!key.ok()) return key.error();
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  (*spawner)->RaiseOwnFileLimit();  // ranks get what this process had
  Result<std::vector<Place>> places =
      nodes.remote() ? PlacesOn(nodes, agent) : PlacesHere(machines);
  if (!places.ok()) return places.error();
  Result<place::RunFolder> folder = place::RunFolder::Make();
  if (!folder.ok()) return folder.error();
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  if (Status status = place::BecomeSubreaper(); !status.ok()) return status.error();
  std::signal(SIGPIPE, SIG_IGN);
  return RunSetup{*key, std::move(*places), std::move(*folder), std::move(*loop),
                  std::move(*spawner)};
}

std::string HostsText(const std::string& job, const std::vector<Place>& places,
                      std::string_view computers) {
  std::string text;
  for (size_t machine = 0; machine < places.size(); ++machine) {
    text += places[machine].address + "\t" + core::HostName(job, static_cast<int>(machine)) + "\n";
  }
  return text.append(computers);
}

std::string MakeHostsFile(const RunSetup& setup, const std::string& job) {
  const Result<std::string> computers = ReadFile("/etc/hosts", kMaxHosts);
  std::string path = setup.folder.path() + "/hosts";
  const std::string text = HostsText(job, setup.places, computers.ok() ? *computers : "");
  return WriteFileAtomically(path, text, {.mode = 0644}).ok() ? path : "";
}

Result<core::AgentConfig> AgentConfigOf(const RunSetup& setup, const core::TrainingJob& job,
                                        const std::string& checkpoint_path,
                                        const std::string& checkpoint_url,
                                        const core::JobStatus& status, uint32_t first_attempt,
                                        uint32_t machine) {
  const uint32_t attempt = status.attempts.Of(static_cast<int>(machine));
  const Place& place = setup.places[machine];
  const bool here = place.by == Reach::kHere;
  Result<std::string> folder =
      here ? setup.folder.MakeAgentFolder(machine, attempt) : Result<std::string>(kFolderThere);
  if (!folder.ok()) return folder.error();
  core::AgentConfig config;
  config.job_uid = job.metadata.uid;
  config.job = job;
  config.machine = machine;
  config.attempt = attempt;
  config.machine0_attempt = status.attempts.Of(0);
  config.epoch = status.epoch;
  config.first_attempt = first_attempt;
  if (machine == 0) {
    for (int i = 0; i < status.attempts.size(); ++i) {
      config.attempts.push_back(status.attempts.Of(i));
    }
  }
  config.predecessor_dead = true;  // a new attempt follows an end, and ends are told when all is
  config.key = setup.key;
  config.coordinator = EndpointText(setup.places[0].address, setup.places[0].gang_port);
  config.listen = EndpointText(place.address, place.gang_port);
  if (place.metrics_port != 0) {
    config.metrics_listen = EndpointText(place.address, place.metrics_port);
  }
  config.advertise = place.address;
  config.run_dir = *folder;
  config.checkpoint_path = checkpoint_path;
  config.checkpoint_url = checkpoint_url;
  config.log_path = job.spec.logs.path;
  if (IsLoopback(place.address)) config.interface = "lo";
  config.shares_computer = here;
  return config;
}

}  // namespace lockstep::cli
