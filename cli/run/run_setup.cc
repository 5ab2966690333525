#include "cli/run/run_setup.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/text/endpoint.h"
#include "cli/run/agent_processes.h"
#include "core/model/names.h"

namespace lockstep::cli {
namespace {

template <typename T>
Result<T> Random() {
  T value{};
  if (getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    return ErrnoError("getrandom", errno);
  }
  return value;
}

}  // namespace

Result<RunSetup> PrepareRun(uint32_t machines) {
  Result<Key> key = Random<Key>();
  if (!key.ok()) return key.error();
  auto random = [] {
    Result<uint16_t> bits = Random<uint16_t>();
    return bits.ok() ? *bits : static_cast<uint16_t>(getpid());
  };
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  (*spawner)->RaiseOwnFileLimit();  // ranks get what this process had
  Result<AddressBlock> addresses = ChooseBlock(machines, random, GangPortsFree);
  if (!addresses.ok()) return addresses.error();
  Result<RunFolder> folder = RunFolder::Make();
  if (!folder.ok()) return folder.error();
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  if (Status status = BecomeSubreaper(); !status.ok()) return status.error();
  std::signal(SIGPIPE, SIG_IGN);
  return RunSetup{*key, *addresses, std::move(*folder), std::move(*loop), std::move(*spawner)};
}

Result<core::AgentConfig> AgentConfigOf(const RunSetup& setup, const core::TrainingJob& job,
                                        const std::string& checkpoint_path,
                                        const core::JobStatus& status, uint32_t first_attempt,
                                        uint32_t machine) {
  const uint32_t attempt = status.attempts.Of(static_cast<int>(machine));
  Result<std::string> folder = setup.folder.MakeAgentFolder(machine, attempt);
  if (!folder.ok()) return folder.error();
  std::string address = setup.addresses.Machine(machine);
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
  config.coordinator = EndpointText(setup.addresses.Machine(0), core::kGangPort);
  config.listen = EndpointText(address, core::kGangPort);
  config.metrics_listen = EndpointText(address, core::kMetricsPort);
  config.advertise = address;
  config.run_dir = *folder;
  config.checkpoint_path = checkpoint_path;
  config.log_path = job.spec.logs.path;
  config.termination_path = setup.folder.TerminationFile(machine, attempt);
  config.interface = "lo";
  config.shares_computer = true;
  return config;
}

}  // namespace lockstep::cli
