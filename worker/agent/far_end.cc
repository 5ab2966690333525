#include "worker/agent/far_end.h"

#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "base/loop/event_loop.h"
#include "base/net/free_port.h"
#include "base/net/route.h"
#include "base/net/tcp.h"
#include "base/process/process.h"
#include "base/process/stop_signals.h"
#include "base/text/line_buffer.h"
#include "base/version.h"
#include "core/exit_codes.h"
#include "core/plan/agent_config.h"
#include "core/plan/far_end.h"
#include "worker/place/run_folder.h"
#include "worker/place/spawn.h"

namespace lockstep::agent {
namespace {

// How long the port of an agent before this one may take to be free: its starter was lost, and its
// own far end is about to kill it.
constexpr Duration kPortPatience = seconds(15);
constexpr Duration kLookAgain = milliseconds(20);
constexpr int kPorts = 4;

class FarEnd {
 public:
  FarEnd(std::unique_ptr<EventLoop> loop, std::unique_ptr<Spawner> spawner, place::RunFolder folder)
      : loop_(std::move(loop)), spawner_(std::move(spawner)), folder_(std::move(folder)) {}

  // Before anything secret is here: what a process that can't be traced starts could not be mapped
  // into a user namespace.
  Status Start(bool namespaces) {
    const Result<std::string> program = OwnProgram();
    if (!program.ok()) return program.error();
    spec_.program = *program;
    spec_.arguments = {"--config-fd", std::to_string(place::kConfigFd)};
    spec_.isolation = namespaces ? place::Isolation::kNamespace : place::Isolation::kNone;
    spec_.own_shared_memory = true;
    spec_.capture_output = false;
    Result<place::SpawnedAgent> agent = SpawnIsolated(spawner_.get(), &spec_, [](const Error&) {});
    if (!agent.ok()) return agent.error();
    agent_ = std::move(*agent);
    if (prctl(PR_SET_DUMPABLE, 0) != 0) return ErrnoError("prctl", errno);
    for (const int signal : kStopSignals) {
      loop_->OnSignal(signal, [this] { Signal(SIGTERM); });
    }
    loop_->OnSignal(SIGCHLD, [] {});
    Status ended = loop_->Watch(agent_.pidfd.get(), EPOLLIN, [this](uint32_t) { OnEnd(); });
    if (!ended.ok()) return ended;
    return loop_->Watch(STDIN_FILENO, EPOLLIN, [this](uint32_t) { OnInput(); });
  }

  int Run() {
    loop_->Run();
    return ending_.signal > 0 ? core::kExitSignal + ending_.signal : ending_.exit_code;
  }

 private:
  void Signal(int signal) {
    syscall(SYS_pidfd_send_signal, agent_.pidfd.get(), signal, nullptr, 0);
  }

  void OnInput() {
    std::array<char, 65536> block;
    const ssize_t n = read(STDIN_FILENO, block.data(), block.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n > 0) input_.Append(std::string_view(block.data(), static_cast<size_t>(n)));
    while (n > 0) {
      const std::optional<std::string_view> line = input_.Next();
      if (!line) break;
      OnLine(*line);
    }
    if (n > 0 && !input_.overflow()) return;
    loop_->Unwatch(STDIN_FILENO);
    Signal(SIGKILL);
  }

  void OnLine(std::string_view line) {
    if (!configured_) {
      configured_ = true;
      Configure(line);
    } else if (line == core::kTerminateOrder) {
      Signal(SIGTERM);
    } else if (line == core::kKillOrder) {
      Signal(SIGKILL);
    }
  }

  void Configure(std::string_view json) {
    Result<core::AgentConfig> config = core::ParseAgentConfig(json);
    if (!config.ok()) return GiveUp(config.error());
    folder_.NameJob(config->job.metadata.name);
    Result<std::string> folder = folder_.MakeAgentFolder(config->machine, config->attempt);
    if (!folder.ok()) return GiveUp(folder.error());
    config->run_dir = *folder;
    config_ = std::move(*config);
    port_until_ = BootTime() + kPortPatience;
    PassOn();
  }

  void PassOn() {
    const Status free = CheckPortIsFree(config_->listen);
    const bool taken = !free.ok() && free.error().kind == ErrorKind::kConflict;
    if (taken && BootTime() < port_until_) {
      loop_->StartTimer(BootTime() + kLookAgain, [this] { PassOn(); });
      return;
    }
    place::TellConfig(agent_, core::ToJson(*config_));
    config_.reset();
  }

  // The agent still waits for its configuration.
  void GiveUp(const Error& error) {
    failed_ = true;
    std::fprintf(stderr, "lockstep-agent: %s\n", error.message.c_str());
    Signal(SIGKILL);
  }

  void OnEnd() {
    int status = 0;
    if (waitpid(agent_.pid, &status, WNOHANG) != agent_.pid) return;
    loop_->Unwatch(agent_.pidfd.get());
    if (failed_) {
      ending_.exit_code = core::kExitConfiguration;
    } else if (WIFSIGNALED(status)) {
      ending_.signal = WTERMSIG(status);
    } else {
      ending_.exit_code = WEXITSTATUS(status);
    }
    Sweep();
  }

  // In a PID namespace the kernel has ended all before the agent's end could be seen.
  void Sweep() {
    if (spec_.isolation == place::Isolation::kNone && !place::SweepOrphans({})) {
      loop_->StartTimer(BootTime() + kLookAgain, [this] { Sweep(); });
      return;
    }
    ending_.termination = place::ReadLastMessage(agent_);
    // In one write, behind all that the agent said.
    std::fprintf(stderr, "%s\n", core::EndingLine(ending_).c_str());
    loop_->Stop();
  }

  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Spawner> spawner_;
  place::RunFolder folder_;
  place::SpawnSpec spec_;
  place::SpawnedAgent agent_;
  LineBuffer input_{core::kMaxAgentConfig};
  bool configured_ = false;
  bool failed_ = false;
  std::optional<core::AgentConfig> config_;  // until the agent has it
  Time port_until_{};
  core::AgentEnding ending_;
};

Result<std::unique_ptr<FarEnd>> MakeFarEnd(bool namespaces) {
  if (Status status = place::BecomeSubreaper(); !status.ok()) return status.error();
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!spawner.ok()) return spawner.error();
  Result<place::RunFolder> folder = place::RunFolder::Make();
  if (!folder.ok()) return folder.error();
  auto far_end =
      std::make_unique<FarEnd>(std::move(*loop), std::move(*spawner), std::move(*folder));
  if (Status status = far_end->Start(namespaces); !status.ok()) return status.error();
  return far_end;
}

}  // namespace

Status CheckPortIsFree(const std::string& listen) {
  const Result<Endpoint> endpoint = ParseEndpoint(listen);
  if (!endpoint.ok()) return endpoint.error();
  const Result<UniqueFd> socket = ListenTcp(*endpoint, 1);
  return socket.ok() ? Status() : socket.error();
}

int RunAsFarEnd(bool namespaces) {
  std::signal(SIGPIPE, SIG_IGN);
  Result<std::unique_ptr<FarEnd>> far_end = MakeFarEnd(namespaces);
  if (far_end.ok()) return (*far_end)->Run();
  std::fprintf(stderr, "lockstep-agent: %s\n", far_end.error().message.c_str());
  return core::kExitReplace;
}

Result<std::string> StarterAddress(
    const std::function<std::string(const std::string& name)>& variable) {
  std::string srun = variable("SLURM_LAUNCH_NODE_IPADDR");
  if (!srun.empty()) return srun;
  const std::string ssh = variable("SSH_CONNECTION");  // its address, its port, ours, our port
  if (!ssh.empty()) return ssh.substr(0, ssh.find(' '));
  return Error::Invalid(
      "neither srun nor ssh started this agent: SLURM_LAUNCH_NODE_IPADDR and "
      "SSH_CONNECTION are not set");
}

Status PrintFacts() {
  const Result<std::string> starter = StarterAddress([](const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return std::string(value == nullptr ? "" : value);
  });
  if (!starter.ok()) return starter.error();
  Result<std::string> address = OwnAddressTowards(*starter);
  if (!address.ok()) return address.error();
  core::AgentFacts facts;
  facts.version = kVersion;
  facts.address = std::move(*address);
  std::random_device random;
  for (int i = 0; i < kPorts; ++i) {
    const Result<uint32_t> port = FindFreePort(random());
    if (!port.ok()) return port.error();
    facts.ports.push_back(static_cast<uint16_t>(*port));
  }
  std::printf("%s\n", core::ToJson(facts).c_str());
  return {};
}

}  // namespace lockstep::agent
