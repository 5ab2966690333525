// EvidenceCollector: collects evidence of this machine's ranks on threads of its own, so that a
// process or a disk that does not answer costs evidence, and never a heartbeat or a kill, and who
// asks never costs a hang its verdict.
//
// A hang's is kept as files, FOLDER/<generation>/evidence/rank-<r>.txt, FOLDER being the job's
// logs.path or the agent's own folder, and beside them the flight recorders of the ranks' programs
// (flight_files.h) and what NCCL tells (worker/ras). Who asks at any time (`lockstep debug`) gets
// it as one file of JSON in the agent's folder.
//
// One for the life of the agent; its calls belong to the loop's thread.
#ifndef LOCKSTEP_WORKER_AGENT_EVIDENCE_EVIDENCE_COLLECTOR_H_
#define LOCKSTEP_WORKER_AGENT_EVIDENCE_EVIDENCE_COLLECTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/result.h"
#include "base/time.h"
#include "core/gang/protocol/messages.h"
#include "core/plan/agent_config.h"
#include "core/terms/generation.h"
#include "worker/agent/evidence/evidence.h"
#include "worker/agent/evidence/flight_files.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/logs/log.h"

namespace lockstep::agent {

class EvidenceCollector {
 public:
  using OnPlaces = std::function<void(std::vector<core::Whereabouts>)>;
  using OnAnswer = std::function<void(Result<std::string> file)>;

  // Makes the folder of the armed, and every `sweep` removes what ended processes have left there:
  // each data loader's worker is armed, and in a pod the folder is memory. `config` outlives this.
  EvidenceCollector(EventLoop* loop, const core::AgentConfig* config, LogFn log,
                    Duration sweep = minutes(1));
  EvidenceCollector(const EvidenceCollector&) = delete;
  EvidenceCollector& operator=(const EvidenceCollector&) = delete;

  // Of a hang. Called back once, before `until`, with what was found by then; with nothing, at
  // once, where the thread hangs with earlier work. The files are written after that.
  void Collect(core::Generation generation, std::vector<RankProcess> ranks, Time until,
               OnPlaces done);
  // For `lockstep debug`. Unavailable where others wait already.
  void Answer(core::Generation generation, std::vector<RankProcess> ranks, OnAnswer done);
  // Writes what is asked about the gang to GangFile, whose name comes back. Likewise.
  void AnswerGang(std::string text, OnAnswer done);

 private:
  struct Queue {
    std::unique_ptr<FileWorker> worker;  // made when first needed
    int waiting = 0;                     // jobs that have not come back
  };

  struct Looked {
    std::vector<RankEvidence> found;
    std::shared_ptr<FlightSearch> flights;
  };
  // Of a hang, beside what its ranks' processes show.
  struct Recorders {
    std::vector<FlightFile> files;
    std::string ras;
  };
  struct Hang {
    core::Generation generation;
    std::vector<core::Whereabouts> places;
    OnPlaces done;  // null: it has been told
  };

  // Null where no thread can be had, or too much waits for it.
  Result<FileWorker*> Enter(Queue& queue);
  void Sweep();
  using Ranks = std::shared_ptr<const std::vector<RankProcess>>;
  void FindRecorders(core::Generation generation, Ranks ranks, Time until, Looked looked);
  void TellPlaces();
  void Keep(core::Generation generation, std::vector<RankEvidence> found, Recorders recorders);

  EventLoop* loop_;
  const core::AgentConfig* config_;
  LogFn log_;
  Duration sweep_;
  Queue hangs_;
  Queue questions_;
  Queue gang_;  // beside them: these are quick
  Hang hang_;
  WakeTimer hang_timer_;
  WakeTimer sweep_timer_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_EVIDENCE_EVIDENCE_COLLECTOR_H_
