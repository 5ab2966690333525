// CommitRequests: requests of this machine's ranks to commit a checkpoint, to the job's volume or
// to memory. The gang grants or refuses each. The answer goes to the process that asked, and names
// the checkpoint's path. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_COMMIT_REQUESTS_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_COMMIT_REQUESTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/gang/member/member.h"
#include "worker/agent/memory/memory_store.h"
#include "worker/agent/rank_socket/progress_message.h"
#include "worker/agent/storage/checkpoint_volume.h"

namespace lockstep::agent {

class CommitRequests {
 public:
  using ClientId = uint64_t;

  class Owner {
   public:
    virtual void Answer(ClientId client, const std::string& line) = 0;
    virtual core::Generation generation() = 0;  // the one at hand
    // The gang is asked; OnAnswer follows.
    virtual void OnCommit(uint64_t id) = 0;
    // `problem`: why this machine cannot keep its part; "": it does.
    virtual void OnMemoryCommit(uint64_t id, const std::string& name, std::string problem) = 0;

   protected:
    ~Owner() = default;
  };

  // Of checkpoints on the volume and in memory; null: the job has none there. All outlive this.
  CommitRequests(const CheckpointVolume* volume, MemoryStore* memory, uint32_t machine,
                 Owner* owner)
      : volume_(volume), memory_(memory), machine_(machine), owner_(owner) {}

  void OnQuestion(ClientId client, const CommitQuestion& question);
  void OnAnswer(const core::AnswerCommit& answer);

 private:
  struct Asked {
    ClientId client = 0;
    uint64_t id = 0;  // the process's
    std::string name;
    core::Generation generation;
    bool memory = false;
  };

  void StoreInMemory(uint64_t id);
  void Grant(const Asked& asked, const core::AnswerCommit& answer);

  const CheckpointVolume* volume_;
  MemoryStore* memory_;
  uint32_t machine_;
  Owner* owner_;
  std::map<uint64_t, Asked> commits_;
  uint64_t last_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_COMMIT_REQUESTS_H_
