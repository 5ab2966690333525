// RunDesk: what a launcher on machine 0 wants run on other machines, by lockstep-rsh
// (remote_shell.h). Its questions become the gang's; what comes back is answered to whoever asked.
// One thread.
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RUN_DESK_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RUN_DESK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "core/gang/member/member.h"
#include "core/model/spec.h"
#include "worker/agent/rank_socket/progress_message.h"

namespace lockstep::agent {

class RunDesk {
 public:
  using ClientId = uint64_t;

  struct Handlers {
    std::function<void(ClientId, const std::string& line)> answer;
    std::function<void(core::Run)> on_run;
  };

  // `job` outlives this.
  RunDesk(const core::TrainingJob* job, Handlers handlers)
      : job_(job), handlers_(std::move(handlers)) {}

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
  Handlers handlers_;
  core::Generation generation_;
  std::map<uint64_t, Asked> runs_;
  uint64_t last_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RUN_DESK_H_
