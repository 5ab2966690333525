#include <array>

#include "core/plan/frameworks/framework_plan.h"
#include "core/plan/plan.h"

namespace lockstep::core {
namespace {

constexpr auto kMpiVariables = std::to_array<OwnVariable>({
    {"OMPI_COMM_WORLD_RANK", UsersValue::kRefused},
    {"OMPI_COMM_WORLD_SIZE", UsersValue::kRefused},
    {"OMPI_COMM_WORLD_LOCAL_RANK", UsersValue::kRefused},
    {"OMPI_COMM_WORLD_LOCAL_SIZE", UsersValue::kRefused},
    {"PMI_PORT", UsersValue::kWins},
    {"PMI_ID", UsersValue::kWins},
    {"PMI_RANK", UsersValue::kWins},
    {"PMI_SIZE", UsersValue::kWins},
    {"MPI_LOCALRANKID", UsersValue::kWins},
    {"MPI_LOCALNRANKS", UsersValue::kWins},
    {"JSM_JSRUN_PORT", UsersValue::kWins},
});

constexpr auto kMpiLeftovers = std::to_array<std::string_view>({
    "OMPI_UNIVERSE_SIZE",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_NUM_APP_CTX",
    "OMPI_FIRST_RANKS",
    "OMPI_FILE_LOCATION",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "MPIRUN_RANK",
    "MPIEXEC_COMM_WORLD_RANK",
});

// MPICH's and Intel MPI's processes ask for all else at that port. What they are locally, as hydra
// tells it, is for programs that choose a GPU by it.
void SetForPmi(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  env.SetUnlessEmpty("PMI_PORT", id.pmi_address);
  if (!id.pmi_address.empty()) env.Set("PMI_ID", id.pmi_id);
  env.Set("PMI_RANK", RankOf(spec, id.machine, id.local_rank));
  env.Set("PMI_SIZE", WorldSize(spec));
  env.Set("MPI_LOCALRANKID", id.local_rank);
  env.Set("MPI_LOCALNRANKS", spec.processes_per_machine);
}

// Open MPI's processes ask for all else at the server that the helper's variables name. Those of
// the first kind are mpirun's, for programs that choose a GPU by them.
void SetForPmix(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  env.Set("OMPI_COMM_WORLD_RANK", RankOf(spec, id.machine, id.local_rank));
  env.Set("OMPI_COMM_WORLD_SIZE", WorldSize(spec));
  env.Set("OMPI_COMM_WORLD_LOCAL_RANK", id.local_rank);
  env.Set("OMPI_COMM_WORLD_LOCAL_SIZE", spec.processes_per_machine);
  // Open MPI 4 asks a PMIx server only if its launcher looks like IBM's jsrun; else each process is
  // its own world. Open MPI 5 does not read this variable.
  env.Set("JSM_JSRUN_PORT", 1);
  for (const auto& [name, value] : id.pmix_variables) env.Set(name, value);
}

void SetForMpi(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  if (ServesPmi(spec)) SetForPmi(spec, id, env);
  if (ServesPmix(spec)) SetForPmix(spec, id, env);
}

}  // namespace

const FrameworkPlan& MpiPlan() {
  static constexpr FrameworkPlan kPlan{.variables = kMpiVariables,
                                       .leftovers = kMpiLeftovers,
                                       .set_for_rank = SetForMpi,
                                       .set_always = nullptr};
  return kPlan;
}

}  // namespace lockstep::core
