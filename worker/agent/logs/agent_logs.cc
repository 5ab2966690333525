#include "worker/agent/logs/agent_logs.h"

#include <unistd.h>

#include <utility>

#include "base/text/json.h"

namespace lockstep::agent {

AgentLogs::AgentLogs(EventLoop* loop, const core::AgentConfig& config)
    : who_("m" + std::to_string(config.machine) + "." + std::to_string(config.attempt)),
      format_(config.job.spec.logs.format),
      stdout_(loop, STDOUT_FILENO),
      stderr_(loop, STDERR_FILENO) {}

Result<std::unique_ptr<AgentLogs>> AgentLogs::Open(EventLoop* loop,
                                                   const core::AgentConfig& config) {
  std::unique_ptr<AgentLogs> logs(new AgentLogs(loop, config));
  if (!config.log_path.empty()) {
    Result<std::unique_ptr<FileWorker>> worker = FileWorker::Create(loop);
    if (!worker.ok()) return worker.error();
    logs->worker_ = std::move(*worker);
    logs->files_ = std::make_unique<LogFiles>(
        logs->worker_.get(), LogStoreOptions{.path = config.log_path}, logs->Logger());
  }
  const LogPumpOptions options{.machine = static_cast<int>(config.machine),
                               .console = config.job.spec.logs.console,
                               .format = config.job.spec.logs.format,
                               .marks_stderr = config.marks_stderr};
  logs->pump_ = std::make_unique<LogPump>(loop, options, &logs->stdout_, logs->files_.get());
  return logs;
}

void AgentLogs::Write(const std::string& line) {
  if (format_ == core::LogFormat::kJson) {
    const Json json = {{"agent", who_}, {"message", line}};
    stderr_.Write(DumpJson(json) + "\n");
  } else {
    stderr_.Write("lockstep-agent[" + who_ + "]: " + line + "\n");
  }
}

bool AgentLogs::idle() const {
  return stdout_.empty() && stderr_.empty() && (!files_ || files_->idle());
}

}  // namespace lockstep::agent
