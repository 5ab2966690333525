// AgentLogs: what this machine writes: its ranks' output to stdout and to files, the agent's own
// lines to stderr. Nothing here waits for who reads it. One thread, but for the files' FileWorker.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_AGENT_LOGS_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_AGENT_LOGS_H_

#include <memory>
#include <string>

#include "base/loop/event_loop.h"
#include "base/result.h"
#include "core/plan/agent_config.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/logs/console.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/logs/log_files.h"
#include "worker/agent/logs/log_pump.h"

namespace lockstep::agent {

class AgentLogs {
 public:
  // As the job's `logs` and the configuration's log path say.
  static Result<std::unique_ptr<AgentLogs>> Open(EventLoop* loop, const core::AgentConfig& config);
  AgentLogs(const AgentLogs&) = delete;
  AgentLogs& operator=(const AgentLogs&) = delete;

  // A line of the agent's own, without its end.
  void Write(const std::string& line);
  LogFn Logger() {
    return [this](const std::string& line) { Write(line); };
  }
  // The ranks'.
  LogPump* pump() { return pump_.get(); }
  // All that was written is out.
  bool idle() const;

 private:
  AgentLogs(EventLoop* loop, const core::AgentConfig& config);

  std::string who_;
  core::LogFormat format_;
  Console stdout_;
  Console stderr_;
  std::unique_ptr<FileWorker> worker_;
  std::unique_ptr<LogFiles> files_;  // null when the log path is empty
  std::unique_ptr<LogPump> pump_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_AGENT_LOGS_H_
