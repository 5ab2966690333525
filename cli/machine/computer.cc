#include "cli/machine/computer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/process/process.h"
#include "worker/topology/plan/binding_plan.h"
#include "worker/topology/plan/core_split.h"
#include "worker/topology/plan/gpu_choice.h"
#include "worker/topology/topology.h"

namespace lockstep::cli {

Computer LookAround() {
  Computer computer;
  Result<topology::Machine> found = topology::Discover();
  computer.machine =
      found.ok() ? std::move(*found) : topology::WithoutTopology(found.error().message);
  const topology::Machine& machine = computer.machine;
  computer.cores = static_cast<int>(topology::AllowedCores(machine).size());
  if (machine.cpu_quota > 0) {
    computer.cores = std::min(computer.cores, static_cast<int>(std::ceil(machine.cpu_quota)));
  }
  const topology::BindingRequest own = topology::RequestOf({}, OwnEnvironment());
  computer.gpus =
      static_cast<int>(topology::ChooseGpus(machine.gpus, own.variables).visible.size());
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
