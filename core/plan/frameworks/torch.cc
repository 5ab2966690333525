#include <array>

#include "core/plan/frameworks/framework_plan.h"

namespace lockstep::core {
namespace {

constexpr auto kTorchVariables = std::to_array<OwnVariable>({
    {"TORCHELASTIC_RUN_ID", UsersValue::kRefused},
    {"TORCHELASTIC_RESTART_COUNT", UsersValue::kRefused},
    {"TORCHELASTIC_MAX_RESTARTS", UsersValue::kRefused},
    {"TORCHELASTIC_ERROR_FILE", UsersValue::kRefused},
    {"TORCHELASTIC_USE_AGENT_STORE", UsersValue::kRefused},
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", UsersValue::kWins},
    {"LOCAL_SIZE", UsersValue::kWins},
});

constexpr auto kAccelerateVariables = std::to_array<OwnVariable>({
    {"ACCELERATE_USE_CPU", UsersValue::kWins},
    {"ACCELERATE_MIXED_PRECISION", UsersValue::kWins},
    {"ACCELERATE_DYNAMO_BACKEND", UsersValue::kWins},
    {"ACCELERATE_DYNAMO_MODE", UsersValue::kWins},
    {"ACCELERATE_DYNAMO_USE_FULLGRAPH", UsersValue::kWins},
    {"ACCELERATE_DYNAMO_USE_DYNAMIC", UsersValue::kWins},
    {"ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", UsersValue::kWins},
});

void SetForTorch(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  env.Set("TORCHELASTIC_RUN_ID", id.job_uid);
  env.Set("TORCHELASTIC_RESTART_COUNT", id.restarts);
  env.Set("TORCHELASTIC_MAX_RESTARTS", spec.failure_policy.max_restarts);
  env.SetUnlessEmpty("TORCHELASTIC_ERROR_FILE", id.error_file);
  env.Set("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1);
  // DeepSpeed's name for LOCAL_WORLD_SIZE: how many devices a machine without GPUs has.
  env.Set("LOCAL_SIZE", spec.processes_per_machine);
}

// The variables that `accelerate launch` always sets, with its defaults.
void SetForAccelerate(const ProcessIdentity& id, Collector& env) {
  env.Set("ACCELERATE_MIXED_PRECISION", "no");
  env.Set("ACCELERATE_DYNAMO_BACKEND", "NO");
  env.Set("ACCELERATE_DYNAMO_MODE", "default");
  env.Set("ACCELERATE_DYNAMO_USE_FULLGRAPH", "False");
  env.Set("ACCELERATE_DYNAMO_USE_DYNAMIC", "False");
  env.Set("ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION", "False");
  if (!id.has_gpu) env.Set("ACCELERATE_USE_CPU", "true");
}

}  // namespace

const FrameworkPlan& TorchPlan() {
  static constexpr FrameworkPlan kPlan{.variables = kTorchVariables,
                                       .leftovers = {},
                                       .set_for_rank = SetForTorch,
                                       .set_always = nullptr};
  return kPlan;
}

// Its ranks are torch's.
const FrameworkPlan& AcceleratePlan() {
  static constexpr FrameworkPlan kPlan{.variables = kAccelerateVariables,
                                       .leftovers = {},
                                       .set_for_rank = SetForTorch,
                                       .set_always = SetForAccelerate};
  return kPlan;
}

}  // namespace lockstep::core
