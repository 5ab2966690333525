#include "cli/run/machines/agent_processes.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "base/file.h"
#include "base/process/process.h"
#include "cli/log_lines.h"
#include "core/model/names.h"

namespace lockstep::cli {
namespace {

constexpr size_t kLastWords = 5;
constexpr size_t kReadsARound = 4;  // of one pipe, so that one loud agent starves nobody

// Reads what is there, up to kReadsARound blocks. False at the end.
template <typename Take>
bool ReadSome(int fd, Take take) {
  std::array<char, 65536> block;
  for (size_t i = 0; i < kReadsARound; ++i) {
    ssize_t n = read(fd, block.data(), block.size());
    if (n < 0) return errno == EAGAIN || errno == EINTR;
    if (n == 0) return false;
    take(std::string_view(block.data(), static_cast<size_t>(n)));
    if (static_cast<size_t>(n) < block.size()) return true;
  }
  return true;
}

// The whole lines of what is there; one that grows beyond its bound is cut, and has no end, as the
// last one may not. False at the end.
template <typename Take>
bool ReadLines(int fd, LineBuffer& lines, Take take) {
  const bool more = ReadSome(fd, [&](std::string_view bytes) { lines.Append(bytes); });
  while (const std::optional<std::string_view> line = lines.Next()) take(*line, true);
  if ((!more || lines.overflow()) && !lines.rest().empty()) {
    take(lines.rest(), false);
    lines.Clear();
  }
  return more;
}

}  // namespace

AgentProcesses::AgentProcesses(EventLoop* loop, Screen* screen, Spawner* spawner,
                               AgentProcessesOptions options)
    : loop_(loop),
      screen_(screen),
      spawner_(spawner),
      options_(std::move(options)),
      isolation_(options_.namespaces ? place::Isolation::kNamespace : place::Isolation::kNone) {}

// The first agent finds out what this computer allows.
Result<place::SpawnedAgent> AgentProcesses::Spawn(std::vector<std::string> arguments,
                                                  std::string host_name) {
  place::SpawnSpec spec;
  spec.program = options_.agent;
  spec.arguments = std::move(arguments);
  spec.own_shared_memory = options_.own_shared_memory;
  if (!options_.hosts_file.empty()) spec.host_name = std::move(host_name);
  spec.hosts_file = options_.hosts_file;
  spec.isolation = isolation_;
  Result<place::SpawnedAgent> agent = SpawnIsolated(spawner_, &spec, [&](const Error& error) {
    if (isolation_known_ || spec.isolation != place::Isolation::kUserNamespace) return;
    screen_->Event("PID namespaces are not allowed here (" + error.message +
                   "): lockstep looks for the processes that an agent leaves and kills them, but "
                   "they outlive a SIGKILL of lockstep itself");
  });
  isolation_ = spec.isolation;
  if (agent.ok()) isolation_known_ = true;
  return agent;
}

void AgentProcesses::TellOfHostNames() {
  if (std::exchange(host_names_told_, true)) return;
  screen_->Event(
      "all machines have this computer's host name, because they have no namespaces: Open MPI's "
      "mpirun treats them as one node and may hang in its first barrier; give -m 1, or mpi.start: "
      "Pmix");
}

Status AgentProcesses::Start(const core::AgentConfig& config, const Place& place) {
  if (place.by != Reach::kHere) return StartRemote(config, place);
  Result<place::SpawnedAgent> spawned =
      Spawn({"--config-fd", std::to_string(place::kConfigFd)},
            core::HostName(config.job.metadata.name, static_cast<int>(config.machine)));
  if (!spawned.ok()) return spawned.error();
  if (options_.needs_host_names && !spawned->host_named) TellOfHostNames();
  place::TellConfig(*spawned, core::ToJson(config));
  auto agent = std::make_shared<Agent>();
  agent->machine = config.machine;
  agent->attempt = config.attempt;
  agent->process = std::move(*spawned);
  return Adopt(agent);
}

Status AgentProcesses::StartRemote(const core::AgentConfig& config, const Place& place) {
  std::vector<std::string> arguments = {"--remote"};
  if (!options_.namespaces) arguments.emplace_back("--no-pid-namespace");
  Result<place::SpawnedAgent> client =
      place::SpawnClient(spawner_, CommandOn(place.by, place.node, options_.agent, arguments),
                         ClientEnvironment(OwnEnvironment()));
  if (!client.ok()) return client.error();
  // All of it is to fit: a client that takes nothing must not stop this process. A user's pipes
  // have few megabytes in all, so that most are left as they are.
  constexpr size_t kFitsAnyway = size_t{48} << 10;
  const std::string text = core::ToJson(config) + "\n";
  if (text.size() > kFitsAnyway) {
    fcntl(client->config.get(), F_SETPIPE_SZ, static_cast<int>(core::kMaxAgentConfig));
  }
  fcntl(client->config.get(), F_SETFL, O_NONBLOCK);
  const Status written = WriteAll(client->config.get(), text, "an agent's configuration");
  auto agent = std::make_shared<Agent>();
  agent->machine = config.machine;
  agent->attempt = config.attempt;
  agent->remote = true;
  agent->process = std::move(*client);
  if (!written.ok()) {
    screen_->Event("machine " + std::to_string(config.machine) + ": " + written.error().message);
    agent->process.config.reset();  // which ends it
  }
  return Adopt(agent);
}

Status AgentProcesses::StartSpare(uint32_t machine) {
  Result<place::SpawnedAgent> spawned = Spawn({"--spare"}, "");
  if (!spawned.ok()) return spawned.error();
  spawned->config.reset();
  auto agent = std::make_shared<Agent>();
  agent->machine = machine;
  agent->process = std::move(*spawned);
  return Adopt(agent);
}

Status AgentProcesses::Adopt(const std::shared_ptr<Agent>& agent) {
  const uint32_t machine = agent->machine;
  agents_[machine] = agent;
  WatchOutput(agent);
  WatchLog(agent);
  return loop_->Watch(agent->process.pidfd.get(), EPOLLIN,
                      [this, machine](uint32_t) { OnEnd(machine); });
}

// A pipe can always be waited for.
void AgentProcesses::WatchOutput(const std::shared_ptr<Agent>& agent) {
  int output = agent->process.output.get();
  [[maybe_unused]] Status watched = loop_->Watch(output, EPOLLIN, [this, agent, output](uint32_t) {
    if (ReadOutput(*agent)) return;
    loop_->Unwatch(output);
    agent->process.output.reset();
  });
}

void AgentProcesses::WatchLog(const std::shared_ptr<Agent>& agent) {
  int log = agent->process.log.get();
  [[maybe_unused]] Status watched = loop_->Watch(log, EPOLLIN, [this, agent, log](uint32_t) {
    if (ReadLog(*agent)) return;
    loop_->Unwatch(log);
    agent->process.log.reset();
  });
}

bool AgentProcesses::ReadOutput(Agent& agent) {
  std::string text;
  const bool more =
      ReadLines(agent.process.output.get(), agent.output, [&](std::string_view line, bool ended) {
        if (options_.on_line) options_.on_line(agent.machine, line);
        text.append(options_.marks_stderr ? WithoutMark(line) : std::string(line));
        if (ended) text += '\n';
      });
  if (!text.empty()) screen_->RankText(text);
  return more;
}

bool AgentProcesses::ReadLog(Agent& agent) {
  return ReadLines(agent.process.log.get(), agent.log, [&](std::string_view line, bool) {
    if (agent.remote) {
      std::optional<core::AgentEnding> ending = core::ParseEndingLine(line);
      if (ending) agent.ending = std::move(ending);
      if (agent.ending) return;  // what the client says of it is nothing new
    }
    if (options_.show_agent_logs) screen_->Event(std::string(line));
    agent.last_words.emplace_back(line);
    if (agent.last_words.size() > kLastWords) agent.last_words.pop_front();
  });
}

void AgentProcesses::Signal(uint32_t machine, int signal) {
  auto found = agents_.find(machine);
  if (found == agents_.end()) return;
  if (found->second->remote) return Order(found->second, signal);
  syscall(SYS_pidfd_send_signal, found->second->process.pidfd.get(), signal, nullptr, 0);
}

void AgentProcesses::Order(const std::shared_ptr<Agent>& agent, int signal) {
  UniqueFd& orders = agent->process.config;
  const bool kill = signal == SIGKILL;
  if (orders.valid()) {
    const std::string line(kill ? core::kKillOrder : core::kTerminateOrder);
    if (!WriteAll(orders.get(), line + "\n", "an order").ok()) orders.reset();
  }
  if (!kill) return;
  orders.reset();
  loop_->StartTimer(BootTime() + kKillPatience, [weak = std::weak_ptr(agent)] {
    const std::shared_ptr<Agent> late = weak.lock();
    if (!late || !late->process.pidfd.valid()) return;
    syscall(SYS_pidfd_send_signal, late->process.pidfd.get(), SIGKILL, nullptr, 0);
  });
}

void AgentProcesses::OnEnd(uint32_t machine) {
  auto found = agents_.find(machine);
  if (found == agents_.end()) return;
  std::shared_ptr<Agent> agent = found->second;
  int status = 0;
  if (waitpid(agent->process.pid, &status, WNOHANG) != agent->process.pid) return;
  agents_.erase(found);
  loop_->Unwatch(agent->process.pidfd.get());
  agent->process.pidfd.reset();
  AgentEnd end;
  end.machine = machine;
  end.attempt = agent->attempt;
  end.at = BootTime();
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
  } else {
    end.code = WEXITSTATUS(status);
  }
  if (agent->process.log.valid()) ReadLog(*agent);
  if (agent->remote) {
    end.confirmed = agent->ending.has_value();
  } else {
    end.termination = place::ReadLastMessage(agent->process);
  }
  if (agent->ending) {
    end.signal = agent->ending->signal;
    end.code = end.signal > 0 ? -1 : agent->ending->exit_code;
    end.termination = agent->ending->termination;
  }
  if (!agent->last_words.empty()) end.last_words = agent->last_words.back();
  ending_.push_back(std::move(end));
  silent_.push_back(std::move(agent));
}

std::vector<AgentEnd> AgentProcesses::Collect() {
  if (ending_.empty()) return {};
  if (isolation_ == place::Isolation::kNone) {
    std::vector<pid_t> alive;
    for (const auto& [machine, agent] : agents_) alive.push_back(agent->process.pid);
    if (!place::SweepOrphans(alive)) return {};
  }
  return std::exchange(ending_, {});
}

void AgentProcesses::Throttle() {
  std::erase_if(silent_, [](const std::shared_ptr<Agent>& agent) {
    return !agent->process.output.valid() && !agent->process.log.valid();
  });
  if (paused_ == screen_->congested()) return;
  paused_ = !paused_;
  auto apply = [&](const std::shared_ptr<Agent>& agent) {
    int fd = agent->process.output.get();
    if (fd < 0) return;
    if (paused_) {
      loop_->Unwatch(fd);
    } else {
      WatchOutput(agent);
    }
  };
  for (const auto& [machine, agent] : agents_) apply(agent);
  for (const auto& agent : silent_) apply(agent);
}

void AgentProcesses::FlushOutput() {
  for (const std::shared_ptr<Agent>& agent : silent_) {
    while (agent->process.output.valid() && !screen_->congested() && ReadOutput(*agent)) {
      // Nobody writes any more: what isn't readable now will never be.
      int before = 0;
      if (ioctl(agent->process.output.get(), FIONREAD, &before) != 0 || before == 0) break;
    }
  }
}

}  // namespace lockstep::cli
