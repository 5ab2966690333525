#include <array>

#include "core/plan/frameworks/framework_plan.h"
#include "core/plan/plan.h"

namespace lockstep::core {
namespace {

constexpr auto kHorovodVariables = std::to_array<OwnVariable>({
    {"HOROVOD_RANK", UsersValue::kWins},
    {"HOROVOD_SIZE", UsersValue::kWins},
    {"HOROVOD_LOCAL_RANK", UsersValue::kWins},
    {"HOROVOD_LOCAL_SIZE", UsersValue::kWins},
    {"HOROVOD_CROSS_RANK", UsersValue::kWins},
    {"HOROVOD_CROSS_SIZE", UsersValue::kWins},
    {"HOROVOD_HOSTNAME", UsersValue::kWins},
    {"HOROVOD_CONTROLLER", UsersValue::kWins},
    {"HOROVOD_CPU_OPERATIONS", UsersValue::kWins},
    {"HOROVOD_GLOO_IFACE", UsersValue::kWins},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", UsersValue::kWins},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", UsersValue::kWins},
});

constexpr auto kHorovodLeftovers = std::to_array<std::string_view>({
    "HOROVOD_RANK",
    "HOROVOD_SIZE",
    "HOROVOD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE",
    "HOROVOD_CROSS_RANK",
    "HOROVOD_CROSS_SIZE",
    "HOROVOD_HOSTNAME",
    "HOROVOD_ELASTIC",
});

// The variables of `horovodrun --gloo`. Machine 0 serves the rendezvous on the generation's port.
void SetForHorovod(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  env.Set("HOROVOD_RANK", RankOf(spec, id.machine, id.local_rank));
  env.Set("HOROVOD_SIZE", WorldSize(spec));
  env.Set("HOROVOD_LOCAL_RANK", id.local_rank);
  env.Set("HOROVOD_LOCAL_SIZE", spec.processes_per_machine);
  env.Set("HOROVOD_CROSS_RANK", id.machine);
  env.Set("HOROVOD_CROSS_SIZE", spec.num_machines);
  env.Set("HOROVOD_HOSTNAME", "machine-" + std::to_string(id.machine));
  env.Set("HOROVOD_CONTROLLER", "gloo");
  env.Set("HOROVOD_CPU_OPERATIONS", "gloo");
  env.SetUnlessEmpty("HOROVOD_GLOO_IFACE", id.interface);
  env.Set("HOROVOD_GLOO_RENDEZVOUS_ADDR", id.master_addr);
  env.Set("HOROVOD_GLOO_RENDEZVOUS_PORT", id.master_port);
}

}  // namespace

const FrameworkPlan& HorovodPlan() {
  static constexpr FrameworkPlan kPlan{.variables = kHorovodVariables,
                                       .leftovers = kHorovodLeftovers,
                                       .set_for_rank = SetForHorovod,
                                       .set_always = nullptr};
  return kPlan;
}

}  // namespace lockstep::core
