// RankEnvironment: what this machine's ranks are started with in a generation: environment, command
// and working directory. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_RANK_ENVIRONMENT_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_RANK_ENVIRONMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/process/process.h"
#include "base/result.h"
#include "base/text/json.h"
#include "core/gang/protocol/messages.h"
#include "core/plan/agent_config.h"
#include "core/plan/environment.h"
#include "worker/agent/ranks/rank_bindings.h"
#include "worker/agent/services/mpi_services.h"
#include "worker/agent/storage/temporary_folders.h"

namespace lockstep::agent {

class RankEnvironment {
 public:
  // Nothing that is pointed to is read in the constructor; all outlive this.
  RankEnvironment(const core::AgentConfig* config, std::string socket_path,
                  const RankBindings* bindings, const TemporaryFolders* temporary,
                  const MpiServices* mpi);

  // Looks for the network interface, the RDMA devices and a port for NCCL's RAS.
  void FindNetwork();
  void BeginGeneration(const core::Start& start);
  // Ranks run in this folder, which has their code; "": where the job says.
  void RunIn(std::string folder) { code_folder_ = std::move(folder); }
  // For a launcher on machine 0: its remote shell and lists of machines, for this generation.
  Status MakeLauncher();

  // The part of the agent's environment that ranks inherit.
  const std::vector<std::string>& inherited() const { return inherited_; }
  // The job with the members of the present generation.
  const core::TrainingJob& job() const { return job_; }
  const std::string& cache_dir() const { return cache_dir_; }
  uint32_t RankOf(int local_rank) const;

  // Of the present generation. The caller must call SetPath next.
  SpawnRequest RequestFor(int local_rank) const { return RequestFor(start_, local_rank); }
  // Finds the program.
  static std::optional<SpawnFailure> SetPath(SpawnRequest* request);
  // The request of rank 0 without a generation.
  Result<SpawnRequest> AnyRequest() const;
  // What changes for a rank that knows the environment `old`: variables as a JSON object; null:
  // gone.
  Json ChangesSince(const std::vector<std::string>& old, int local_rank) const;
  // What a rank would find, less what each has of its own, with all GPUs of this machine's
  // processes: "NAME=value".
  std::vector<std::string> OfMachine() const;

 private:
  core::ProcessIdentity Identity(const core::Start& start, int local_rank) const;
  SpawnRequest RequestFor(const core::Start& start, int local_rank) const;

  const core::AgentConfig* config_;
  core::TrainingJob job_;
  std::string socket_path_;
  const RankBindings* bindings_;
  const TemporaryFolders* temporary_;
  const MpiServices* mpi_;
  std::string cache_dir_;  // as core::ProcessIdentity has it
  std::vector<std::string> inherited_;
  std::string interface_;     // as core::ProcessIdentity has it
  std::string ras_address_;   // likewise
  std::string rdma_devices_;  // likewise
  std::string launcher_dir_;  // likewise
  std::string code_folder_;   // as RunIn has it
  core::Start start_;         // of the generation at hand
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_RANK_ENVIRONMENT_H_
