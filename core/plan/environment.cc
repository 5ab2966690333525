#include "core/plan/environment.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/model/launch.h"
#include "core/model/roles.h"
#include "core/plan/frameworks/framework_plan.h"
#include "core/plan/leftovers.h"
#include "core/plan/plan.h"
#include "core/plan/trainer_command.h"

namespace lockstep::core {
namespace {

constexpr auto kCompileCaches = std::to_array<CompileCache>({
    {"TORCHINDUCTOR_CACHE_DIR", "inductor"},
    {"TRITON_CACHE_DIR", "triton"},
    {"TORCH_EXTENSIONS_DIR", "extensions"},
    {"PYTORCH_KERNEL_CACHE_PATH", "kernels"},
    {"JAX_COMPILATION_CACHE_DIR", "jax"},
    {"CUDA_CACHE_PATH", "cuda"},
});

bool Contains(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Variables of all frameworks, beside those in frameworks/.
constexpr auto kCommon = std::to_array<OwnVariable>({
    {"OMP_NUM_THREADS", UsersValue::kWins},
    {"PYTHONUNBUFFERED", UsersValue::kWins},
    {"TMPDIR", UsersValue::kWins},
    {"NCCL_IB_HCA", UsersValue::kWins},
    {"NCCL_RAS_ADDR", UsersValue::kWins},
    {"NCCL_SOCKET_IFNAME", UsersValue::kWins},
    {"GLOO_SOCKET_IFNAME", UsersValue::kWins},
    {"RANK", UsersValue::kRefused},
    {"LOCAL_RANK", UsersValue::kRefused},
    {"WORLD_SIZE", UsersValue::kRefused},
    {"LOCAL_WORLD_SIZE", UsersValue::kRefused},
    {"GROUP_RANK", UsersValue::kRefused},
    {"GROUP_WORLD_SIZE", UsersValue::kRefused},
    {"NODE_RANK", UsersValue::kRefused},
    {"ROLE_RANK", UsersValue::kRefused},
    {"ROLE_WORLD_SIZE", UsersValue::kRefused},
    {"ROLE_NAME", UsersValue::kRefused},
    {"MASTER_ADDR", UsersValue::kRefused},
    {"MASTER_PORT", UsersValue::kRefused},
    {"PET_NNODES", UsersValue::kRefused},
    {"PET_NPROC_PER_NODE", UsersValue::kRefused},
    {"PET_NODE_RANK", UsersValue::kRefused},
    {"PET_MASTER_ADDR", UsersValue::kRefused},
    {"PET_MASTER_PORT", UsersValue::kRefused},
    {"PET_MAX_RESTARTS", UsersValue::kRefused},
});

// Those with this rule, each once.
std::vector<std::string_view> NamesWith(UsersValue rule) {
  std::vector<std::string_view> names;
  const auto add = [&](std::span<const OwnVariable> variables) {
    for (const OwnVariable& variable : variables) {
      if (variable.users_value == rule && !Contains(names, variable.name)) {
        names.push_back(variable.name);
      }
    }
  };
  add(kCommon);
  for (const FrameworkRow& row : kFrameworks) add(PlanOf(row.framework).variables);
  return names;
}

// PerMachine: one process on each machine starts the others. It must have no rank in its
// environment, or it would behave as one of them.
void SetForLauncher(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  env.Set("NODE_RANK", id.machine);
  env.Set("MASTER_ADDR", id.master_addr);
  env.Set("MASTER_PORT", id.master_port);
  env.Set("PET_NNODES", spec.num_machines);
  env.Set("PET_NPROC_PER_NODE", spec.processes_per_machine);
  env.Set("PET_NODE_RANK", id.machine);
  env.Set("PET_MASTER_ADDR", id.master_addr);
  env.Set("PET_MASTER_PORT", id.master_port);
  // The gang restarts as a whole; a launcher that restarts alone would wait for peers in vain.
  env.Set("PET_MAX_RESTARTS", 0);
}

// For mpirun of Open MPI 4, Open MPI 5 (PRTE), MPICH and Intel MPI, because its name does not show
// which one it is. Ranks get their numbers only from it. MPICH and Intel MPI pass on machine 0's
// environment, so variables that differ between machines are left out.
void SetForMpirun(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  env.Set("MASTER_ADDR", id.master_addr);
  env.Set("MASTER_PORT", id.master_port);
  if (id.launcher_dir.empty()) return;
  const std::string shell = id.launcher_dir + "/rsh";
  const std::string hosts = id.launcher_dir + "/hosts";
  const std::string hydra_hosts = id.launcher_dir + "/hosts.hydra";
  env.Set("OMPI_MCA_plm_rsh_agent", shell);
  // Machine 0 starts all daemons itself, and each shell lives as long as its daemon.
  env.Set("OMPI_MCA_plm_rsh_no_tree_spawn", 1);
  env.Set("OMPI_MCA_plm_rsh_num_concurrent", kMostMachines);
  env.Set("OMPI_MCA_orte_leave_session_attached", 1);
  env.Set("OMPI_MCA_orte_default_hostfile", hosts);
  env.Set("OMPI_MCA_orte_keep_fqdn_hostnames", 1);
  env.Set("PRTE_MCA_plm_ssh_agent", shell);
  env.Set("PRTE_MCA_plm_ssh_no_tree_spawn", 1);
  env.Set("PRTE_MCA_plm_ssh_num_concurrent", kMostMachines);
  env.Set("PRTE_MCA_prte_default_hostfile", hosts);
  env.Set("PRTE_MCA_prte_keep_fqdn_hostnames", 1);
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                           "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
    env.Set(name, 1);  // as is usual in a container
  }
  env.Set("HYDRA_LAUNCHER", "ssh");
  env.Set("HYDRA_LAUNCHER_EXEC", shell);
  env.Set("HYDRA_HOST_FILE", hydra_hosts);
  env.Set("I_MPI_HYDRA_BOOTSTRAP", "ssh");
  env.Set("I_MPI_HYDRA_BOOTSTRAP_EXEC", shell);
  env.Set("I_MPI_HYDRA_HOST_FILE", hydra_hosts);
  // Which it takes for one of each, in turns.
  env.Set("I_MPI_PERHOST", spec.processes_per_machine);
}

void SetRanks(const Spec& spec, const ProcessIdentity& id, Collector& env) {
  const int64_t rank = RankOf(spec, id.machine, id.local_rank);
  const int64_t world = WorldSize(spec);
  env.Set("RANK", rank);
  // A process that sees its own GPUs alone counts them from 0, and programs take GPU LOCAL_RANK.
  const bool isolated = spec.topology.gpu_visibility == GpuVisibility::kIsolated && id.has_gpu;
  env.Set("LOCAL_RANK", isolated ? 0 : id.local_rank);
  env.Set("WORLD_SIZE", world);
  env.Set("LOCAL_WORLD_SIZE", spec.processes_per_machine);
  env.Set("GROUP_RANK", id.machine);
  env.Set("GROUP_WORLD_SIZE", spec.num_machines);
  env.Set("NODE_RANK", id.machine);
  const std::optional<RoleRank> role = RoleOf(spec, rank);
  env.Set("ROLE_RANK", role ? role->index : rank);
  env.Set("ROLE_WORLD_SIZE", role ? role->role->count : world);
  if (role) env.Set("ROLE_NAME", role->role->name);
  env.Set("MASTER_ADDR", id.master_addr);
  env.Set("MASTER_PORT", id.master_port);
}

void SetOwn(const TrainingJob& job, const ProcessIdentity& id, Collector& env) {
  env.Set("LOCKSTEP_JOB", job.metadata.name);
  env.Set("LOCKSTEP_JOB_UID", id.job_uid);
  env.Set("LOCKSTEP_EPOCH", id.epoch);
  env.Set("LOCKSTEP_GENERATION", std::to_string(id.attempt) + "-" + std::to_string(id.n));
  env.Set("LOCKSTEP_RESTARTS", id.restarts);
  if (!StartsFromMachine0(job.spec)) env.Set("LOCKSTEP_MACHINE", id.machine);
  if (const auto role = RoleOf(job.spec, RankOf(job.spec, id.machine, id.local_rank))) {
    env.Set("LOCKSTEP_ROLE", role->role->name);
    env.Set("LOCKSTEP_ROLE_RANK", role->index);
    env.Set("LOCKSTEP_ROLE_SIZE", role->role->count);
  }
  env.SetUnlessEmpty("LOCKSTEP_SOCKET", id.socket_path);
  env.SetUnlessEmpty("LOCKSTEP_CHECKPOINT_DIR", id.checkpoint_dir);
  env.SetUnlessEmpty("LOCKSTEP_RESUME_DIR", id.resume_dir);
  env.SetUnlessEmpty("LOCKSTEP_SKIP_STEPS", id.skip_steps);
  env.SetUnlessEmpty("LOCKSTEP_LOCAL_DIR", id.local_dir);
  env.SetUnlessEmpty("TMPDIR", id.temporary_dir);
}

void SetCaches(const ProcessIdentity& id, Collector& env) {
  if (id.cache_dir.empty()) return;
  for (const auto& [variable, folder] : kCompileCaches) {
    env.Set(std::string(variable), id.cache_dir + "/" + std::string(folder));
  }
}

std::pair<std::string_view, std::string_view> Split(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos) return {assignment, {}};
  return {assignment.substr(0, equals), assignment.substr(equals + 1)};
}

// The job's env as Kubernetes expands it: $(NAME) refers to a variable above it in the list.
// Variables with valueFrom are in `inherited` already, on a cluster.
Variables UserVariables(const Spec& spec) {
  Variables variables;
  for (const EnvVar& entry : spec.env) {
    if (!entry.value_from.IsNull()) continue;
    variables.emplace_back(entry.name, ExpandVariables(entry.value, variables));
  }
  return variables;
}

const std::string* Find(const Variables& variables, std::string_view name) {
  // The last one wins, as in a process's environment built from the list.
  const auto found = std::find_if(variables.rbegin(), variables.rend(),
                                  [&](const auto& variable) { return variable.first == name; });
  return found == variables.rend() ? nullptr : &found->second;
}

}  // namespace

bool ServesPmi(const Spec& spec) {
  return spec.framework == Framework::kMpi && spec.mpi.start == MpiStart::kPmi;
}

bool ServesPmix(const Spec& spec) {
  return spec.framework == Framework::kMpi && spec.mpi.start == MpiStart::kPmix;
}

std::span<const CompileCache> CompileCaches() { return kCompileCaches; }

bool IsUserOverridable(std::string_view name) {
  const bool is_cache = std::ranges::any_of(
      kCompileCaches, [&](const CompileCache& cache) { return cache.variable == name; });
  static const std::vector<std::string_view> names = NamesWith(UsersValue::kWins);
  return is_cache || Contains(names, name);
}

std::span<const std::string_view> ReservedNames() {
  static const std::vector<std::string_view> names = NamesWith(UsersValue::kRefused);
  return names;
}

bool IsReserved(std::string_view name) {
  return name.starts_with("LOCKSTEP_") || Contains(ReservedNames(), name);
}

Variables ProcessEnvironment(const TrainingJob& job, const ProcessIdentity& identity) {
  Variables variables;
  Collector env(variables);
  const Spec& spec = job.spec;
  const FrameworkPlan& framework = PlanOf(spec.framework);
  if (StartsFromMachine0(spec)) {
    SetForMpirun(spec, identity, env);
  } else if (spec.launch == Launch::kPerMachine) {
    SetForLauncher(spec, identity, env);
  } else {
    SetRanks(spec, identity, env);
    if (framework.set_for_rank != nullptr) framework.set_for_rank(spec, identity, env);
  }
  if (framework.set_always != nullptr) framework.set_always(identity, env);
  if (identity.omp_threads > 0) env.Set("OMP_NUM_THREADS", identity.omp_threads);
  for (const auto& [name, value] : identity.gpu_variables) env.Set(name, value);
  // Python writes to a pipe in blocks of 8 KiB, so that what a rank prints would come minutes late,
  // and would be lost with a killed rank.
  env.Set("PYTHONUNBUFFERED", 1);
  env.SetUnlessEmpty("NCCL_IB_HCA", identity.rdma_devices);
  env.SetUnlessEmpty("NCCL_RAS_ADDR", identity.ras_address);
  env.SetUnlessEmpty("NCCL_SOCKET_IFNAME", identity.interface);
  env.SetUnlessEmpty("GLOO_SOCKET_IFNAME", identity.interface);
  SetOwn(job, identity, env);
  SetCaches(identity, env);
  return variables;
}

std::vector<std::string> BuildEnvironment(const std::vector<std::string>& inherited,
                                          const TrainingJob& job, const ProcessIdentity& identity) {
  std::map<std::string, std::string, std::less<>> environment;
  for (const std::string& assignment : inherited) {
    const auto [name, value] = Split(assignment);
    if (!name.empty() && !IsLeftover(name) && !IsReserved(name))
      environment[std::string(name)] = value;
  }
  for (auto& [name, value] : UserVariables(job.spec)) environment[name] = std::move(value);
  // Inductor keeps Triton's kernels in its own folder unless another one is set.
  const bool own_inductor = environment.contains("TORCHINDUCTOR_CACHE_DIR");
  for (auto& [name, value] : ProcessEnvironment(job, identity)) {
    if (IsUserOverridable(name) && environment.contains(name)) continue;
    if (name == "TRITON_CACHE_DIR" && own_inductor) continue;
    environment[name] = std::move(value);
  }
  std::vector<std::string> assignments;
  assignments.reserve(environment.size());
  for (const auto& [name, value] : environment) {
    assignments.emplace_back(name).append("=").append(value);
  }
  return assignments;
}

std::vector<std::string> FromShell(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    std::string text;
    for (size_t i = 0; i < argument.size(); ++i) {
      text += argument[i];
      const bool doubled = i + 1 < argument.size() && argument[i + 1] == '$';
      if (argument[i] == '$' && doubled) text += '$';
    }
    argument = std::move(text);
  }
  return arguments;
}

std::string EscapeVariables(std::string_view text) {
  std::string escaped;
  for (size_t i = 0; i < text.size(); ++i) {
    escaped += text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (text[i] == '$' && (next == '$' || next == '(')) escaped += '$';
  }
  return escaped;
}

std::string ExpandVariables(std::string_view text, const Variables& variables) {
  std::string expanded;
  const size_t last_close = text.rfind(')');
  size_t at = 0;
  while (at < text.size()) {
    const size_t dollar = text.find('$', at);
    expanded += text.substr(at, dollar - at);
    if (dollar == std::string_view::npos) break;
    const char next = dollar + 1 < text.size() ? text[dollar + 1] : '\0';
    const bool opens = next == '(' && last_close != std::string_view::npos && dollar < last_close;
    const size_t close = opens ? text.find(')', dollar) : std::string_view::npos;
    if (next == '$') {
      expanded += '$';
      at = dollar + 2;
    } else if (close == std::string_view::npos) {
      expanded += '$';
      at = dollar + 1;
    } else {
      const std::string_view name = text.substr(dollar + 2, close - dollar - 2);
      const std::string* value = Find(variables, name);
      expanded +=
          value != nullptr ? std::string_view(*value) : text.substr(dollar, close + 1 - dollar);
      at = close + 1;
    }
  }
  return expanded;
}

std::vector<std::string> BuildCommand(const TrainingJob& job,
                                      const std::vector<std::string>& environment) {
  Variables variables;
  variables.reserve(environment.size());
  for (const std::string& assignment : environment) {
    const auto [name, value] = Split(assignment);
    variables.emplace_back(name, value);
  }
  if (job.spec.command.empty() && job.spec.trainer) return TrainerCommand(job.spec);
  std::vector<std::string> command;
  for (const auto* part : {&job.spec.command, &job.spec.args}) {
    for (const std::string& argument : *part) {
      command.push_back(ExpandVariables(argument, variables));
    }
  }
  return command;
}

}  // namespace lockstep::core
