// LogStore: one file a rank, stream and generation, `<path>/<generation>/rank-<r>.<stream>.log`,
// with what the process wrote, byte by byte. A file that reaches its limit becomes `....log.1`, in
// place of the one before it. All files of this agent together stay within a total: the oldest that
// is no longer written to goes first.
//
// It blocks as long as the file system does: LogFiles runs it on a thread of its own.
#ifndef LOCKSTEP_WORKER_AGENT_LOGS_LOG_STORE_H_
#define LOCKSTEP_WORKER_AGENT_LOGS_LOG_STORE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::agent {

struct LogStoreOptions {
  std::string path;
  uint64_t max_file = uint64_t{64} << 20;
  uint64_t max_total = uint64_t{2} << 30;
};

class LogStore {
 public:
  explicit LogStore(LogStoreOptions options) : options_(std::move(options)) {}

  // Closes the files of the generation before.
  void StartGeneration(const std::string& generation);
  // `name`: "rank-3.stderr". TooLarge when the total is used up by files in use; otherwise the file
  // system's own words.
  Status Append(const std::string& name, std::string_view bytes);

 private:
  struct File {
    UniqueFd fd;
    uint64_t size = 0;
  };
  struct Closed {
    std::string path;
    uint64_t size = 0;
  };

  std::string PathOf(const std::string& name) const;
  Status Open(const std::string& name, File* file);
  Status Rotate(const std::string& name, File* file);
  bool MakeRoom(uint64_t bytes);

  LogStoreOptions options_;
  std::string generation_;
  std::map<std::string, File> open_;
  std::deque<Closed> closed_;  // oldest first
  uint64_t total_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_LOGS_LOG_STORE_H_
