#include "core/plan/leftovers.h"

#include <algorithm>
#include <array>

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

constexpr std::array kNames = {
    "TF_CONFIG"sv,
    "JAX_COORDINATOR_ADDRESS"sv,
    "JAX_COORDINATOR_PORT"sv,
    "JAX_COORDINATOR_BIND_ADDRESS"sv,
    "JAX_NUM_PROCESSES"sv,
    "JAX_PROCESS_ID"sv,
    "JAX_LOCAL_DEVICE_IDS"sv,
    "JAX_PARTITION_INDEX"sv,
    "HOROVOD_RANK"sv,
    "HOROVOD_SIZE"sv,
    "HOROVOD_LOCAL_RANK"sv,
    "HOROVOD_LOCAL_SIZE"sv,
    "HOROVOD_CROSS_RANK"sv,
    "HOROVOD_CROSS_SIZE"sv,
    "HOROVOD_HOSTNAME"sv,
    "HOROVOD_ELASTIC"sv,
    "OMPI_UNIVERSE_SIZE"sv,
    "OMPI_APP_CTX_NUM_PROCS"sv,
    "OMPI_NUM_APP_CTX"sv,
    "OMPI_FIRST_RANKS"sv,
    "OMPI_FILE_LOCATION"sv,
    "OMPI_ARGV"sv,
    "OMPI_COMMAND"sv,
    "MPI_LOCALRANKID"sv,
    "MPI_LOCALNRANKS"sv,
    "MPIRUN_RANK"sv,
    "MPIEXEC_COMM_WORLD_RANK"sv,
};

bool BeginsAsOneOf(std::string_view name, const auto& prefixes) {
  return std::ranges::any_of(prefixes,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

bool IsLeftover(std::string_view name) {
  if (BeginsAsOneOf(name, kSettings)) return false;
  return BeginsAsOneOf(name, kPrefixes) || std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace lockstep::core
