#include "core/model/spec.h"

namespace lockstep::core {

int64_t WorldSize(const Spec& spec) {
  return int64_t{spec.num_machines} * spec.processes_per_machine;
}

int ProcessesStarted(const Spec& spec) {
  return spec.launch == Launch::kPerMachine ? 1 : spec.processes_per_machine;
}

}  // namespace lockstep::core
