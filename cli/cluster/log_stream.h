// LogStream: the log of one pod's worker, line by line, as it grows or as it is.
//
// Lines are taken by a thread of the transport: a reader that stands still holds back this
// transport's streams, and nothing else. It reads with kubelet's time stamps, which are not shown,
// so that a stream that is opened again after a break goes on behind the last line.
#ifndef LOCKSTEP_CLI_CLUSTER_LOG_STREAM_H_
#define LOCKSTEP_CLI_CLUSTER_LOG_STREAM_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text/line_buffer.h"
#include "base/wall_time.h"
#include "cli/log_lines.h"
#include "operator/kube/http/transport.h"

namespace lockstep::cli {

struct PodLog {
  std::string name_space{};
  std::string pod{};
  bool follow = false;
  std::optional<WallTime> behind{};  // lines up to then are known
  std::optional<size_t> tail{};      // only the last lines that pass the filter, once it has ended
  std::optional<size_t> from{};      // it begins so many lines before its present end
};

// Takes the lines of a log, in a thread of the transport.
struct LogSink {
  std::function<void(std::optional<WallTime> at, std::string_view line)> line;
  std::function<void()> pause;  // no more has come so far
};
LogSink ToStandardOutput();

class LogStream {
 public:
  // How it ended, and the time of the last line, known ones included. From a thread of the
  // transport; the stream must not be destroyed in it.
  using OnEnd = std::function<void(Status, std::optional<WallTime> last)>;

  LogStream(kube::Transport* transport, PodLog what, LogFilter filter, LogSink sink, OnEnd on_end);

 private:
  void OnData(std::string_view data);
  void PrintLine(std::string_view line);
  void WriteKept();
  Status Outcome(const Status& status) const;

  const PodLog what_;
  const LogFilter filter_;
  const LogSink sink_;
  LineBuffer lines_{size_t{4} << 20};
  std::optional<WallTime> last_;
  std::deque<std::string> kept_;  // of what.tail
  size_t kept_bytes_ = 0;
  kube::Response head_;
  std::unique_ptr<kube::Stream> stream_;  // last: ends before what its handlers use
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_LOG_STREAM_H_
