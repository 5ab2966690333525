// Measurer: carries out what MEASURE asks of this machine, in a child process that it may kill.
// Owned by the agent; all on the loop's thread.
#ifndef LOCKSTEP_WORKER_AGENT_MEASURE_MEASURER_H_
#define LOCKSTEP_WORKER_AGENT_MEASURE_MEASURER_H_

#include <functional>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/process/process.h"
#include "base/unique_fd.h"
#include "core/gang/protocol/messages.h"
#include "worker/agent/gang/frame.h"
#include "worker/agent/logs/log.h"

namespace lockstep::agent {

class Measurer {
 public:
  struct Options {
    std::string executable;  // started again as the child
    std::string host;        // the IP that partners come to
    uint32_t machine = 0;
    std::string folder;  // whose disk is measured; "": none
    bool gpus = false;
    std::vector<std::string> env = {};  // for what measures those: "NAME=value"
  };
  using OnMeasured = std::function<void(core::Measured)>;

  Measurer(EventLoop* loop, Spawner* spawner, Options options, OnMeasured on_measured, LogFn log);
  ~Measurer();
  Measurer(const Measurer&) = delete;
  Measurer& operator=(const Measurer&) = delete;

  // A first step ends what is under way; links follow the first step of their own measurement.
  void Measure(const core::Measure& measure);
  void Stop();

 private:
  Status Begin();
  void OnReadable();

  EventLoop* loop_;
  Spawner* spawner_;
  Options options_;
  OnMeasured on_measured_;
  LogFn log_;
  SpawnedProcess child_;
  UniqueFd socket_;  // valid while a child is there
  FrameSplitter frames_{core::kMaxMessage};
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_MEASURE_MEASURER_H_
