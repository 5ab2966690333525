// How a job's command starts its ranks, as its framework has it.
#ifndef LOCKSTEP_CORE_MODEL_LAUNCH_H_
#define LOCKSTEP_CORE_MODEL_LAUNCH_H_

#include "core/model/spec.h"

namespace lockstep::core {

// Machine 0 alone runs the command, which is mpirun's: it has the agents of the others start what
// it runs there (docs/guides/mpi.md).
constexpr bool StartsFromMachine0(const Spec& spec) {
  return spec.framework == Framework::kMpi && spec.mpi.start == MpiStart::kLauncher;
}

// PerMachine where StartsFromMachine0, whatever spec.launch says.
constexpr Launch LaunchOf(const Spec& spec) {
  return StartsFromMachine0(spec) ? Launch::kPerMachine : spec.launch;
}

// Never where the command starts the ranks, and for the built-in trainer, which is no Python.
constexpr Prestart PrestartOf(const Spec& spec) {
  const bool possible = LaunchOf(spec) == Launch::kPerProcess && !spec.trainer;
  return possible ? spec.prestart : Prestart::kNever;
}

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_MODEL_LAUNCH_H_
