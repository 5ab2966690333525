// The process that measures an agent's machine (spec.preflight): a child of its own, so that the
// agent's loop goes on and whatever stands still can be killed. It reads MEASURE and writes
// MEASURED as frames (worker/agent/gang/frame.h) on one socket, and ends after the links.
#ifndef LOCKSTEP_WORKER_AGENT_MEASURE_MEASURE_CHILD_H_
#define LOCKSTEP_WORKER_AGENT_MEASURE_MEASURE_CHILD_H_

namespace lockstep::agent {

// lockstep-agent --measure IP MACHINE FOLDER WHAT: its partners come to that IP; FOLDER's disk is
// measured, unless it is "", and GPUs where WHAT is kMeasureGpus.
inline constexpr char kMeasureArgument[] = "--measure";
inline constexpr char kMeasureGpus[] = "gpus";
inline constexpr int kMeasureFd = 3;  // as SpawnRequest::extra_fds hands it down

int MeasureMain(int argc, char** argv);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_MEASURE_MEASURE_CHILD_H_
