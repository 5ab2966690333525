// PodLogs: the logs of machines whose lines are looked at, each from its current pod. A stream is
// opened when a machine is wanted, and closed once it has not been for kWanted; a broken one goes
// on behind its last line.
//
// Bounded: kMost streams, kMostWaiting bytes of lines that the loop has not taken. One thread.
#ifndef LOCKSTEP_CLI_CLUSTER_PAGE_POD_LOGS_H_
#define LOCKSTEP_CLI_CLUSTER_PAGE_POD_LOGS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/result.h"
#include "base/time.h"
#include "base/wall_time.h"
#include "cli/cluster/log_choice.h"
#include "cli/cluster/log_stream.h"
#include "operator/kube/http/transport.h"
#include "operator/kube/views.h"

namespace lockstep::cli {

class PodLogs {
 public:
  static constexpr size_t kMost = 16;
  static constexpr size_t kFirstLines = 1000;  // of what a log holds when it is opened
  static constexpr Duration kWanted = seconds(30);
  static constexpr size_t kMostWaiting = size_t{4} << 20;

  class Owner {
   public:
    virtual void OnLogLine(int machine, std::optional<WallTime> at, std::string_view line) = 0;
    // A stream has come to what there is, or it ended so.
    virtual void OnLogRead(const Status& status) = 0;

   protected:
    ~Owner() = default;
  };

  // `transport` is for the streams alone. It and `owner` outlive this.
  PodLogs(EventLoop* loop, kube::Transport* transport, Owner* owner);
  ~PodLogs();
  PodLogs(const PodLogs&) = delete;
  PodLogs& operator=(const PodLogs&) = delete;

  // The current pods; machines that are not there have none.
  void SetPods(const PodsByMachine& pods);
  // Reads these machines from now on, for kWanted at least; the first kMost of them.
  void Want(const std::vector<int>& machines);
  // Whether lines of a wanted machine that are there already have yet to come.
  bool pending() const;
  // Whether the logs of all wanted machines that have started were read to their ends.
  bool whole() const;

 private:
  struct Lines;
  struct Reading {
    kube::ObjectMeta pod;
    bool started = false;
    bool ended = false;
    std::optional<WallTime> last;
    std::unique_ptr<LogStream> stream;
    Time wanted{};
    bool come = false;   // something came, or the stream ended
    bool whole = false;  // read to its end, or it may not be read
    TimerId retry = 0;
  };

  void Open(int machine, Reading* reading);
  void Take(int machine, const std::string& uid, Lines* lines);
  void OnEnd(int machine, const std::string& uid, const Status& status,
             std::optional<WallTime> last);
  void Close(Reading* reading);
  void CloseUnwanted();

  EventLoop* loop_;
  kube::Transport* transport_;
  Owner* owner_;
  std::map<int, Reading> readings_;
  TimerId sweep_ = 0;
  Lifetime lifetime_;
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_PAGE_POD_LOGS_H_
