// Bindings: which CPUs, memory, GPUs and network cards each rank of a job gets on this computer,
// and the picture of it, for the page. What is planned, as `lockstep plan` shows it; what became of
// it each machine's agent says itself.
#ifndef LOCKSTEP_CLI_UI_BINDINGS_H_
#define LOCKSTEP_CLI_UI_BINDINGS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "core/model/spec.h"
#include "worker/topology/plan/binding_plan.h"

namespace lockstep::cli {

class Bindings {
 public:
  static constexpr size_t kMostRanks = 512;
  static constexpr size_t kMostPictures = size_t{512} << 10;  // bytes of Pictures()

  // `environment`: "NAME=value", as the ranks inherit it.
  Bindings(topology::Machine computer, const core::Spec& spec,
           const std::vector<std::string>& environment);

  // JSON in the forms of docs/internals/page.md: `bindings`, and the answer of /api/topology.
  std::string Columns() const;
  Result<std::string> Picture(uint32_t machine) const;
  // `topology`: as many machines, from the first one on, as fit.
  std::string Pictures() const;

 private:
  int RankOf(size_t machine, const topology::RankBinding& binding) const;

  topology::Machine computer_;
  std::vector<topology::BindingPlan> plans_;  // by machine
  int processes_;                             // of a machine
};

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_BINDINGS_H_
