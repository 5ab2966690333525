// RunRequests: requests of a launcher on machine 0 to run a command on another machine, made by
// lockstep-rsh (remote_shell.h). Each is sent to the gang; the result goes to the process that
// asked. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RUN_REQUESTS_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RUN_REQUESTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/gang/member/member.h"
#include "core/model/spec.h"
#include "worker/agent/rank_socket/progress_message.h"

namespace lockstep::agent {

class RunRequests {
 public:
  using ClientId = uint64_t;

  class Owner {
   public:
    virtual void Answer(ClientId client, const std::string& line) = 0;
    virtual void OnRun(core::Run run) = 0;

   protected:
    ~Owner() = default;
  };

  // Both outlive this.
  RunRequests(const core::TrainingJob* job, Owner* owner) : job_(job), owner_(owner) {}

  // Whoever asked before is dead.
  void BeginGeneration(core::Generation generation);
  void OnQuestion(ClientId client, const RunQuestion& question);
  void OnAnswer(const core::AnswerRun& answer);

 private:
  struct Asked {
    ClientId client = 0;
    uint64_t id = 0;  // the process's
  };

  const core::TrainingJob* job_;
  Owner* owner_;
  core::Generation generation_;
  std::map<uint64_t, Asked> runs_;
  uint64_t last_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RUN_REQUESTS_H_
