#include <algorithm>
#include <array>

#include "core/plan/frameworks/framework_plan.h"
#include "core/plan/plan.h"

namespace lockstep::core {
namespace {

constexpr auto kJaxVariables = std::to_array<OwnVariable>({
    {"JAX_COORDINATOR_ADDRESS", UsersValue::kWins},
    {"JAX_ENABLE_PREEMPTION_SERVICE", UsersValue::kWins},
    {"JAX_LOCAL_DEVICE_IDS", UsersValue::kWins},
    {"OMPI_MCA_orte_hnp_uri", UsersValue::kWins},
    {"OMPI_COMM_WORLD_RANK", UsersValue::kRefused},
    {"OMPI_COMM_WORLD_SIZE", UsersValue::kRefused},
    {"OMPI_COMM_WORLD_LOCAL_RANK", UsersValue::kRefused},
});

constexpr auto kJaxLeftovers = std::to_array<std::string_view>({
    "JAX_COORDINATOR_ADDRESS",
    "JAX_COORDINATOR_PORT",
    "JAX_COORDINATOR_BIND_ADDRESS",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_ID",
    "JAX_LOCAL_DEVICE_IDS",
    "JAX_PARTITION_INDEX",
});

// jax.distributed.initialize() without arguments takes the coordinator's address from its own
// variable, and who it is from launchers that it knows: there is no variable of JAX for that. Open
// MPI's names are the ones that an MPI library itself does not act on, be it linked or not.
void SetForJax(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  if (!id.master_addr.empty()) {
    env.Set("JAX_COORDINATOR_ADDRESS", id.master_addr + ":" + std::to_string(id.master_port));
  }
  env.Set("OMPI_MCA_orte_hnp_uri", "lockstep");
  env.Set("OMPI_COMM_WORLD_RANK", RankOf(spec, id.machine, id.local_rank));
  env.Set("OMPI_COMM_WORLD_SIZE", WorldSize(spec));
  env.Set("OMPI_COMM_WORLD_LOCAL_RANK", id.local_rank);
  // It would catch SIGTERM and continue, until the program checks at a step whether it should stop.
  env.Set("JAX_ENABLE_PREEMPTION_SERVICE", "false");
  if (!id.has_gpu) return;
  const int gpus = std::max(spec.resources_per_process.gpu.value_or(1), 1);
  const bool isolated = spec.topology.gpu_visibility == GpuVisibility::kIsolated;
  const int first = isolated ? 0 : id.local_rank * gpus;
  std::string devices = std::to_string(first);
  for (int gpu = first + 1; gpu < first + gpus; ++gpu) {
    devices.append(",").append(std::to_string(gpu));
  }
  env.Set("JAX_LOCAL_DEVICE_IDS", std::move(devices));
}

}  // namespace

const FrameworkPlan& JaxPlan() {
  static constexpr FrameworkPlan kPlan{.variables = kJaxVariables,
                                       .leftovers = kJaxLeftovers,
                                       .set_for_rank = SetForJax,
                                       .set_always = nullptr};
  return kPlan;
}

}  // namespace lockstep::core
