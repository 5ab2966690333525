#include "core/plan/leftovers.h"

#include <algorithm>
#include <array>

#include "core/plan/frameworks/framework_plan.h"

namespace lockstep::core {
namespace {

using std::string_view_literals::operator""sv;

// Whole families: what begins so.
constexpr std::array kPrefixes = {
    "SLURM_"sv,           // srun
    "FLUX_"sv,            // flux run
    "PALS_"sv,            // Cray's
    "JSM_"sv,             // jsrun
    "PMI_"sv,             // MPICH, Intel MPI, srun --mpi=pmi2
    "PMIX_"sv,            // Open MPI, srun --mpi=pmix
    "PRTE_"sv,            // Open MPI 5
    "HYDI_"sv,            // MPICH's proxies
    "I_MPI_HYDRA_"sv,     // Intel MPI's
    "MV2_COMM_WORLD_"sv,  // MVAPICH
    "OMPI_COMM_WORLD_"sv,
    "OMPI_MCA_ess"sv,  // how Open MPI 4's processes find their daemon
    "OMPI_MCA_orte_"sv,
    "HOROVOD_GLOO_RENDEZVOUS_"sv,
};

// Settings within such a family.
constexpr std::array kSettings = {"PMIX_MCA_"sv, "PRTE_MCA_"sv};

bool BeginsAsOneOf(std::string_view name, const auto& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool IsLeftover(std::string_view name) {
  if (BeginsAsOneOf(name, kSettings)) return false;
  return BeginsAsOneOf(name, kPrefixes) ||
         std::ranges::any_of(kFrameworks, [name](const FrameworkRow& row) {
           const auto& names = PlanOf(row.framework).leftovers;
           return std::ranges::find(names, name) != names.end();
         });
}

}  // namespace lockstep::core
