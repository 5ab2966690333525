// LogFiles: LogStore behind a thread, so that a file server that stands still costs log lines and
// never a heartbeat. At most 4 MiB wait for it; what goes beyond is dropped and counted, as is what
// a full disk refuses. The job goes on.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_LOG_FILES_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_LOG_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/lifetime.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/logs/log_store.h"

namespace lockstep::agent {

class LogFiles {
 public:
  static constexpr size_t kMaxPending = size_t{4} << 20;

  // `worker` outlives this, and should serve nothing else that is urgent.
  LogFiles(FileWorker* worker, LogStoreOptions options, LogFn log);
  LogFiles(const LogFiles&) = delete;
  LogFiles& operator=(const LogFiles&) = delete;

  void StartGeneration(const std::string& generation);
  void Append(const std::string& name, std::string_view bytes);

  // Everything has been handed to the file system, or dropped.
  bool idle() const { return !in_flight_ && pending_.empty(); }
  uint64_t dropped_bytes() const { return dropped_bytes_; }

 private:
  // What is to be written, in order; a generation's start is an item of its own.
  struct Item {
    std::string generation;  // not empty: StartGeneration
    std::string name;
    std::string bytes;
  };
  struct Outcome {
    uint64_t lost_bytes = 0;
    std::string error;
  };

  static Outcome WriteAll(LogStore* store, const std::vector<Item>& items);
  void Submit();
  void OnDone(const Outcome& outcome);

  FileWorker* worker_;
  RateLimitedLog log_;
  std::shared_ptr<LogStore> store_;  // touched by the worker's thread alone
  std::vector<Item> pending_;
  std::map<std::string, size_t> pending_index_;  // name -> its item since the generation's start
  size_t pending_bytes_ = 0;
  size_t in_flight_bytes_ = 0;
  bool in_flight_ = false;
  uint64_t dropped_bytes_ = 0;
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_LOG_FILES_H_
