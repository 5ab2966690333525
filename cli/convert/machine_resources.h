// What a machine was given by another launcher: cores, memory, GPUs and devices.
#ifndef LOCKSTEP_CLI_CONVERT_MACHINE_RESOURCES_H_
#define LOCKSTEP_CLI_CONVERT_MACHINE_RESOURCES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/text/quantity.h"
#include "cli/convert/job_builder.h"

namespace lockstep::convert {

class MachineResources {
 public:
  MachineResources() = default;
  // A container's resources: limits, and requests for what has no limit. `resources` may be null.
  explicit MachineResources(const Node* resources);

  // A name that is there already keeps its amount.
  void Add(const std::string& name, const std::string& amount, Position position);

  // 0 where there are none, or no whole number.
  int64_t gpus() const;

  // Divides them among the processes of a machine of the builder's job, and sets its
  // resourcesPerProcess and resourcesPerMachine. Remarks for what is rounded down. Errors: an
  // amount that is no quantity, fewer GPUs than processes.
  void Write(JobBuilder& builder) const;

 private:
  struct Amount {
    std::string name;
    std::string text;
    Position position;
  };
  static void WriteGpus(const Amount& amount, JobBuilder& builder);
  static void WriteShare(const Amount& amount, const Quantity& total, JobBuilder& builder);

  std::vector<Amount> amounts_;
};

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_MACHINE_RESOURCES_H_
