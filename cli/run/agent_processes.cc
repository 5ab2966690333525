#include "cli/run/agent_processes.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "base/file.h"

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

// The whole lines of what is there; one that grows beyond its bound is cut. False at the end.
template <typename Take>
bool ReadLines(int fd, LineBuffer& lines, Take take) {
  const bool more = ReadSome(fd, [&](std::string_view bytes) { lines.Append(bytes); });
  while (const std::optional<std::string_view> line = lines.Next()) take(*line);
  if ((!more || lines.overflow()) && !lines.rest().empty()) {
    take(lines.rest());
    lines.Clear();
  }
  return more;
}

void WriteConfig(const UniqueFd& config, const std::string& json) {
  // An agent that is gone will be told by its end.
  [[maybe_unused]] const Status written = WriteAll(config.get(), json, "an agent's configuration");
}

}  // namespace

AgentProcesses::AgentProcesses(EventLoop* loop, Screen* screen, Spawner* spawner,
                               AgentProcessesOptions options)
    : loop_(loop),
      screen_(screen),
      spawner_(spawner),
      options_(std::move(options)),
      isolation_(options_.namespaces ? Isolation::kNamespace : Isolation::kNone),
      isolation_known_(!options_.namespaces) {}

// The first agent finds out what this computer allows.
Result<SpawnedAgent> AgentProcesses::Spawn(std::vector<std::string> arguments) {
  SpawnSpec spec;
  spec.program = options_.agent;
  spec.arguments = std::move(arguments);
  spec.own_shared_memory = options_.own_shared_memory;
  while (true) {
    spec.isolation = isolation_;
    Result<SpawnedAgent> agent = SpawnAgent(spawner_, spec);
    bool refused = !agent.ok() && agent.error().kind == ErrorKind::kDenied;
    if (refused && !isolation_known_ && isolation_ != Isolation::kNone) {
      if (isolation_ == Isolation::kUserNamespace) {
        screen_->Event("no PID namespace is to be had here (" + agent.error().message +
                       "): what an agent leaves behind is looked for and killed, and outlives a "
                       "SIGKILL of lockstep itself");
      }
      isolation_ =
          isolation_ == Isolation::kNamespace ? Isolation::kUserNamespace : Isolation::kNone;
      continue;
    }
    if (agent.ok()) isolation_known_ = true;
    return agent;
  }
}

Status AgentProcesses::Start(const core::AgentConfig& config) {
  Result<SpawnedAgent> spawned = Spawn({"--config-fd", std::to_string(kConfigFd)});
  if (!spawned.ok()) return spawned.error();
  WriteConfig(spawned->config, core::ToJson(config));
  return Adopt(std::move(*spawned), config.machine, config.attempt);
}

Status AgentProcesses::StartSpare(uint32_t machine) {
  Result<SpawnedAgent> spawned = Spawn({"--spare"});
  if (!spawned.ok()) return spawned.error();
  return Adopt(std::move(*spawned), machine, 0);
}

Status AgentProcesses::Adopt(SpawnedAgent spawned, uint32_t machine, uint32_t attempt) {
  spawned.config.reset();
  auto agent = std::make_shared<Agent>();
  agent->machine = machine;
  agent->attempt = attempt;
  agent->process = std::move(spawned);
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
  const bool more = ReadLines(agent.process.output.get(), agent.output,
                              [&](std::string_view line) { text.append(line) += '\n'; });
  if (!text.empty()) screen_->RankText(text);
  return more;
}

bool AgentProcesses::ReadLog(Agent& agent) {
  return ReadLines(agent.process.log.get(), agent.log, [&](std::string_view line) {
    if (options_.show_agent_logs) screen_->Event(std::string(line));
    agent.last_words.emplace_back(line);
    if (agent.last_words.size() > kLastWords) agent.last_words.pop_front();
  });
}

void AgentProcesses::Signal(uint32_t machine, int signal) {
  auto found = agents_.find(machine);
  if (found == agents_.end()) return;
  syscall(SYS_pidfd_send_signal, found->second->process.pidfd.get(), signal, nullptr, 0);
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
  if (!agent->last_words.empty()) end.last_words = agent->last_words.back();
  ending_.push_back(std::move(end));
  silent_.push_back(std::move(agent));
}

std::vector<AgentEnd> AgentProcesses::Collect() {
  if (ending_.empty()) return {};
  if (isolation_ == Isolation::kNone) {
    std::vector<pid_t> alive;
    for (const auto& [machine, agent] : agents_) alive.push_back(agent->process.pid);
    if (!SweepOrphans(alive)) return {};
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
