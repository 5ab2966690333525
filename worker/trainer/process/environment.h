// The variables of docs/reference/environment.md that the trainer reads. Without them the trainer
// runs without an agent.
#ifndef LOCKSTEP_WORKER_TRAINER_PROCESS_ENVIRONMENT_H_
#define LOCKSTEP_WORKER_TRAINER_PROCESS_ENVIRONMENT_H_

#include <string>

namespace lockstep::trainer {

struct Environment {
  std::string job_uid;
  std::string generation;
  std::string socket;          // LOCKSTEP_SOCKET
  std::string checkpoint_dir;  // of this generation
  std::string resume_dir;      // the checkpoint to go on from
  std::string skip_steps;      // steps whose data is left out: LOCKSTEP_SKIP_STEPS
  std::string memory_dir;      // for checkpoints in memory; empty: the job keeps none
  int rank = 0;
};

Environment ReadEnvironment();

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_PROCESS_ENVIRONMENT_H_
