// Agent: one machine of a job. It puts core's member (and, on machine 0, the coordinator) on real
// sockets, processes, clocks and files, and carries their actions out. One thread and one loop, but
// for FileWorker's.
//
//   Result<std::unique_ptr<Agent>> agent = Agent::Create(config, "/proc/self/exe");
//   if (!agent.ok()) return Complain(agent.error());
//   return (*agent)->Run();
#ifndef LOCKSTEP_WORKER_AGENT_AGENT_H_
#define LOCKSTEP_WORKER_AGENT_AGENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/crypto/tls_psk.h"
#include "base/loop/event_loop.h"
#include "base/loop/wake_timer.h"
#include "base/process/process.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unique_fd.h"
#include "core/gang/diagnosis/standstill.h"
#include "core/gang/member/member.h"
#include "core/gang/status/status_api.h"
#include "core/plan/agent_config.h"
#include "worker/agent/code/code_store.h"
#include "worker/agent/departure.h"
#include "worker/agent/evidence/evidence_collector.h"
#include "worker/agent/files/file_worker.h"
#include "worker/agent/gang/coordinator_host.h"
#include "worker/agent/gang/gang_listener.h"
#include "worker/agent/gang/gang_port.h"
#include "worker/agent/gang/second_clock.h"
#include "worker/agent/http/metrics_server.h"
#include "worker/agent/http/status_server.h"
#include "worker/agent/last_message.h"
#include "worker/agent/logs/agent_logs.h"
#include "worker/agent/logs/output_watch.h"
#include "worker/agent/measure/measurer.h"
#include "worker/agent/memory/memory_store.h"
#include "worker/agent/metrics/machine_metrics.h"
#include "worker/agent/processes/guard.h"
#include "worker/agent/processes/live_table.h"
#include "worker/agent/rank_socket/commit_requests.h"
#include "worker/agent/rank_socket/rank_socket.h"
#include "worker/agent/rank_socket/rejoin_requests.h"
#include "worker/agent/rank_socket/run_requests.h"
#include "worker/agent/ranks/local_ranks.h"
#include "worker/agent/ranks/rank_metrics.h"
#include "worker/agent/ranks/usage_reporter.h"
#include "worker/agent/ranks/world_watch.h"
#include "worker/agent/services/horovod_store.h"
#include "worker/agent/storage/checkpoint_bucket.h"
#include "worker/agent/storage/checkpoint_volume.h"
#include "worker/agent/storage/object_store.h"

namespace lockstep::agent {

class Agent {
 public:
  // `executable` is started again as the guard; `starter` is a socket that hears the last message,
  // or invalid.
  static Result<std::unique_ptr<Agent>> Create(core::AgentConfig config, UniqueFd starter,
                                               const std::string& executable);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Until the machine's part in the job is over; the exit code of api.md. The last message has been
  // written.
  int Run();

 private:
  Agent(core::AgentConfig config, UniqueFd starter);
  Status Open(const std::string& executable);
  Status OpenRanks(const std::string& executable);
  Status OpenObjects();
  void OpenOutputWatch();
  Status OpenGang();
  Status OpenMemory();
  Status OpenCode();
  Status TakeCode(const CodeQuestion& question);
  Status OpenServers();

  Time Now();
  struct Events;
  struct ActionVisitor;
  struct ProgressVisitor;

  void CarryOut(const core::MemberActions& actions);
  void OnProgress(RankSocket::ClientId client, const ProgressMessage& message);
  std::vector<RankProcess> RankProcesses() const;
  void Start(const core::Spawn& spawn);
  void Persist(const core::Persist& persist);
  std::optional<CoordinatorHost::Storage> StorageOfCommits();
  void OnPruned(const Status& pruned);
  void Leave(const core::ExitAgent& exit);
  void OnCoordinatorExit(const core::ExitCoordinator& exit);
  // What keeps an agent here that is to leave.
  Departure::Hold Hold() const;
  // Writes the last message and stops the loop.
  void Go();
  core::Termination LastWords() const;
  // What is doubted of the world that the ranks form; "": nothing, or another machine's to say.
  std::string DoubtOfWorld() const;
  core::GangStatus Status_(bool by_machine = false) const;
  uint64_t Version() const;
  void Log(const std::string& line) { logs_->Write(line); }

  core::AgentConfig config_;
  std::vector<std::string> store_variables_;  // taken before any thread or process starts
  const LastMessage last_message_;
  const core::SecondClock second_clock_ = FindSecondClock();
  core::Standstill standstill_{second_clock_, ReadClocks(second_clock_)};
  const std::unique_ptr<Events> events_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<AgentLogs> logs_;
  std::unique_ptr<ObjectStore> objects_;  // threads of the workers below use it
  std::unique_ptr<FileWorker> files_;
  std::unique_ptr<FileWorker> pruner_;  // null: no object store
  int prunes_ = 0;                      // under way
  std::unique_ptr<Spawner> spawner_;
  std::unique_ptr<LiveTable> table_;
  std::unique_ptr<LocalRanks> ranks_;
  std::unique_ptr<EvidenceCollector> evidence_;
  std::unique_ptr<Measurer> measurer_;
  std::unique_ptr<Guard> guard_;
  std::optional<TlsPskContext> server_tls_;
  std::optional<TlsPskContext> client_tls_;
  std::optional<CheckpointVolume> volume_;
  std::optional<CheckpointBucket> bucket_;  // at most one of volume_ and bucket_
  std::unique_ptr<MemoryStore> memory_;     // null: no checkpoints in memory
  std::unique_ptr<CodeStore> code_;         // null: the job has no sync
  std::unique_ptr<core::Member> member_;
  std::unique_ptr<GangPort> gang_;
  CoordinatorHost* coordinator_ = nullptr;  // machine 0 only: `gang_`
  std::unique_ptr<HorovodStore> horovod_;   // machine 0 only, of a job of Horovod's
  std::unique_ptr<WorldWatch> world_;       // machine 0 only
  std::unique_ptr<MachineMetrics> machine_metrics_;
  std::unique_ptr<RankMetrics> rank_metrics_;
  std::optional<UsageReporter> usage_;
  std::unique_ptr<OutputWatch> output_;  // null: no progress is read from the output
  std::unique_ptr<StatusServer> status_;
  std::unique_ptr<GangListener> listener_;
  std::unique_ptr<MetricsServer> metrics_;  // null when metricsListen is empty
  std::unique_ptr<RankSocket> progress_;
  std::optional<RejoinRequests> rejoin_;
  std::optional<RunRequests> runs_;
  std::optional<CommitRequests> commits_;
  std::string resume_;  // the folder that this generation resumes from; "": none
  uint64_t member_version_ = 1;
  std::optional<WakeTimer> timer_;  // the member's

  std::optional<Departure> departure_;
  bool coordinator_done_ = false;
  uint32_t needs_epoch_ = 0;  // as the coordinator said on leaving
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_AGENT_H_
