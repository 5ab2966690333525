// Variables by which another launcher tells a process who it is. `lockstep run` may stand in a
// SLURM step, under mpirun or in a pod of another operator; a rank that found these would take
// itself for a process of that launcher: jax follows SLURM_*, an MPI program PMI_* and PMIX_*,
// TensorFlow TF_CONFIG, Horovod HOROVOD_RANK.
#ifndef LOCKSTEP_CORE_PLAN_LEFTOVERS_H_
#define LOCKSTEP_CORE_PLAN_LEFTOVERS_H_

#include <string_view>

namespace lockstep::core {

// Whether `name` is such a variable. Settings of the same libraries are not: OMPI_MCA_btl,
// PMIX_MCA_gds, JAX_PLATFORMS, HOROVOD_FUSION_THRESHOLD.
bool IsLeftover(std::string_view name);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PLAN_LEFTOVERS_H_
