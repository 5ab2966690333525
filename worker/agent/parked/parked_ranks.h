// ParkedRanks: interpreters that wait beside this machine's ranks with what these import, so that
// the next generation's ranks need no start of Python. See docs/guides/prestart.md.
//
// A parked interpreter is a rank's own command line, with its environment and binding, that the
// hook (worker/python/prestart) holds inside Python's `site`, before there is a __main__. It is
// told what only its generation knows ("late" variables: where to meet, sockets, folders) when it
// is let go. There is one a local rank, started one after the other once the ranks have taken a
// step and run as long again:
//
//   parked.BeginGeneration();
//   if (auto taken = parked.Take(l, request)) taken->Go();  // else the rank starts cold
//   parked.OnStarted(warm);
//   parked.OnStep();                        // now they have time: the next may be made
//
// It is never slower than none and never runs early: a probe first shows that this interpreter
// obeys the hook; a parked interpreter that is not ready, differs in a word from what the rank is
// to be, or is dead is killed, and the rank started as ever. A parked interpreter is in no
// LiveTable and no generation; ProcessSet leaves it out, and reaps it once it is given up. While it
// imports beside running ranks, and has to wait for a core, it is stopped for most of the time; its
// priority is never touched, for no process could raise it again. Under Auto, parked interpreters
// go where memory becomes short.
#ifndef LOCKSTEP_WORKER_AGENT_PARKED_PARKED_RANKS_H_
#define LOCKSTEP_WORKER_AGENT_PARKED_PARKED_RANKS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/process/process.h"
#include "base/result.h"
#include "base/text/line_buffer.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "core/gang/protocol/messages.h"
#include "core/model/spec.h"
#include "worker/agent/logs/line_splitter.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/metrics/families.h"
#include "worker/agent/parked/parked_resources.h"
#include "worker/agent/parked/python_command.h"
#include "worker/agent/processes/process_set.h"

namespace lockstep::agent {

class ParkedRanks : public prometheus::Collectable {
 public:
  struct Options {
    core::Prestart prestart = core::Prestart::kNever;
    std::vector<std::string> exclude;   // spec.prestartExclude
    std::string folder;                 // for the hook and what ranks were seen to import
    Duration patience = seconds(60);    // Auto, for programs that report no step
    std::string root{};                 // proc/ and sys/ are read below it
    std::function<void()> on_change{};  // of told(); may be called from within any method
  };

  // A process that becomes a rank with Go, once the guard knows it.
  struct Interpreter {
    SpawnedProcess process;
    UniqueFd socket;
    std::string message;
    // False: it is dead.
    bool Go();
  };

  // Everything pointed to outlives this. `processes` does not wait for parked interpreters until
  // they are killed.
  ParkedRanks(EventLoop* loop, Spawner* spawner, ProcessSet* processes, Options options, LogFn log);
  ~ParkedRanks() override;
  ParkedRanks(const ParkedRanks&) = delete;
  ParkedRanks& operator=(const ParkedRanks&) = delete;

  // Kills the parked interpreters that are not ready.
  void BeginGeneration();
  // The parked interpreter of this rank that may be used as `request` says, if there is one. The
  // next parked interpreter is started as `request` says, with its hook.
  std::optional<Interpreter> Take(size_t local_rank, const SpawnRequest& request);
  // Lets a rank that starts cold note what it imports.
  void Record(size_t local_rank, SpawnRequest* request) const;
  // The ranks run. `warm`: each rank that was started came from a parked interpreter. Parked
  // interpreters of ranks that outlived the last generation stay. Each learns its generation when
  // it is let go.
  void OnStarted(bool warm);
  // The ranks run, and none was started: all are those of the last generation.
  void OnKept();
  void OnStep();
  // Kills all and makes no more.
  void Close();

  // Of one machine, ready to become ranks.
  size_t ready() const;
  // Why there are none, or fewer than ranks; empty: none is missed, or they are being made.
  const std::string& why_not() const { return why_not_; }
  core::Parked told() const;
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  struct Parked {
    SpawnRequest wanted;  // as the rank was started last
    SpawnedProcess process;
    UniqueFd socket;
    LineBuffer lines{size_t{64} << 10};
    LineSplitter out;
    LineSplitter err;
    int lines_shown = 0;
    size_t printed = 0;
    std::vector<std::string> given;  // its environment, less the hook's
    PythonCommand python;            // that its command line named when it was started
    std::string nonce;
    Time began{};
    bool alive = false;
    bool lost = false;  // in this generation; it is not made again
    bool held = false;
    bool ready = false;
    bool stopped = false;
    double seconds = 0;  // of CPU, that its imports took
  };

  bool wanted() const { return options_.prestart != core::Prestart::kNever; }
  std::string ListOf(size_t local_rank) const;
  Status WriteHook();
  void RefillLater(bool at_once);
  void Refill();
  Status Probe();
  void OnProbe(bool ended);
  void EndProbe();
  void ParkNext();
  Status Park(size_t local_rank);
  static bool Matches(const Parked& parked, const SpawnRequest& before,
                      const SpawnRequest& request);
  Status HasRoom() const;
  Result<SpawnedProcess> SpawnHeld(SpawnRequest request, const std::string& mode,
                                   const std::string& list, UniqueFd* socket);
  void OnSocket(size_t local_rank);
  void OnLine(size_t local_rank, std::string_view line);
  void OnReady(size_t local_rank, double seconds);
  void ReadOutput(size_t local_rank, int fd, LineSplitter* splitter);
  void Release(Parked* parked);
  void Kill(Parked* parked);
  // Gives this parked interpreter up; the others stay, and those that were to follow are made.
  void Lose(size_t local_rank, const std::string& why);
  void NoneParked(const std::string& why);
  void Changed();
  void OnDuty();
  void OnLook();
  void LookAtFiles();
  Duration LookAtMemory();

  EventLoop* loop_;
  Spawner* spawner_;
  ProcessSet* processes_;
  Options options_;
  LogFn log_;
  std::string oom_score_adj_;  // the agent's own
  bool closed_ = false;
  std::map<size_t, Parked> parked_;  // by local rank
  Time started_{};                   // the generation's ranks
  bool stepped_ = false;
  bool filling_ = false;  // parked interpreters of this generation were begun, or given up
  std::string why_not_;
  std::string logged_;  // the last why_not_ that was
  // The probe that runs.
  std::optional<SpawnedProcess> probe_;
  UniqueFd probe_socket_;
  LineBuffer probe_lines_{size_t{64} << 10};
  std::string probe_nonce_;
  std::optional<size_t> importing_;  // the parked interpreter that is not ready yet
  WakeTimer refill_timer_;
  WakeTimer limit_timer_;  // of the probe, or of the parked interpreter that is not held or ready
  WakeTimer duty_timer_;
  WakeTimer look_timer_;  // at the parked interpreters that are there
  Time files_at_{};       // then at what they have open, too
  uint64_t cpu_ns_ = 0;   // of the importing parked interpreter, when last looked at
  uint64_t wait_ns_ = 0;  // likewise: that it stood runnable without a core
  ParkedMemory memory_;
  uint64_t warm_ = 0;  // generations
  uint64_t cold_ = 0;
  double taken_seconds_ = 0;  // of the generation at hand, the most of one parked interpreter
  double saved_seconds_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PARKED_PARKED_RANKS_H_
