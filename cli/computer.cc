#include "cli/computer.h"

#include <sched.h>

#include <algorithm>
#include <cmath>

#include "worker/topology/core_split.h"
#include "worker/topology/topology.h"

namespace lockstep::cli {

Computer LookAround() {
  Computer computer;
  Result<topology::Machine> machine = topology::Discover();
  if (machine.ok()) {
    computer.cores = static_cast<int>(topology::AllowedCores(*machine).size());
    if (machine->cpu_quota > 0) {
      computer.cores = std::min(computer.cores, static_cast<int>(std::ceil(machine->cpu_quota)));
    }
    computer.gpus = static_cast<int>(machine->gpus.size());
  } else {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) computer.cores = CPU_COUNT(&allowed);
  }
  computer.cores = std::max(computer.cores, 1);
  return computer;
}

std::string ToString(const Computer& computer) {
  auto count = [](int number, const char* what) {
    return (number == 0 ? "no" : std::to_string(number)) + " " + what + (number > 1 ? "s" : "");
  };
  return count(computer.cores, "core") + ", " + count(computer.gpus, "GPU");
}

}  // namespace lockstep::cli
