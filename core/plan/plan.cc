#include "core/plan/plan.h"

#include <algorithm>
#include <array>

#include "core/model/launch.h"
#include "core/model/names.h"
#include "core/model/shortcuts.h"
#include "core/plan/trainer_command.h"

namespace lockstep::core {
namespace {

// Placeholders for values that are known only when a generation starts.
struct Placeholder {
  std::string_view name;
  const char* value;
};
constexpr auto kPlaceholders = std::to_array<Placeholder>({
    {"MASTER_ADDR", "<IP of machine 0>"},
    {"MASTER_PORT", "<new each generation>"},
    {"PET_MASTER_ADDR", "<IP of machine 0>"},
    {"PET_MASTER_PORT", "<new each generation>"},
    {"OMP_NUM_THREADS", "<cores bound>"},
    {"TF_CONFIG", R"({"cluster": {"worker": [<IP:PORT of each rank>]}, )"
                  R"("task": {"type": "worker", "index": <rank>}})"},
    {"TORCHELASTIC_RUN_ID", "<job UID>"},
    {"TORCHELASTIC_RESTART_COUNT", "<restarts so far>"},
    {"TORCHELASTIC_ERROR_FILE", "<a file of this rank and generation>"},
    {"LOCKSTEP_JOB_UID", "<job UID>"},
    {"LOCKSTEP_EPOCH", "<epoch>"},
    {"LOCKSTEP_GENERATION", "<attempt>-<n>"},
    {"LOCKSTEP_RESTARTS", "<restarts so far>"},
    {"LOCKSTEP_SOCKET", "<the agent's socket>"},
    {"LOCKSTEP_LOCAL_DIR", "<memory that survives restarts>"},
    {"LOCKSTEP_CHECKPOINT_DIR", "<checkpoint.path>/checkpoints/<attempt>-<n>"},
    {"LOCKSTEP_RESUME_DIR", "<the checkpoint to resume from>"},
    {"LOCKSTEP_SKIP_STEPS", "<steps whose data is left out>"},
    {"PMI_PORT", "<the agent's, new each generation>"},
    {"PMI_ID", "<new each generation>"},
    {"PMIX_NAMESPACE", "<new each generation>"},
    {"PMIX_SERVER_URI4", "<of the agent's helper, new each generation; and others of its>"},
    {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "<IP of machine 0>"},
    {"HOROVOD_GLOO_RENDEZVOUS_PORT", "<new each generation>"},
    {"HOROVOD_GLOO_IFACE", "<the only interface, or the only near one>"},
    {"NCCL_RAS_ADDR", "<of its machine's processes alone>"},
    {"NCCL_SOCKET_IFNAME", "<the only interface, or the only near one>"},
    {"GLOO_SOCKET_IFNAME", "<the only interface, or the only near one>"},
});

constexpr auto kOfOneProcess = std::to_array<std::string_view>({"RANK",
                                                                "LOCAL_RANK",
                                                                "GROUP_RANK",
                                                                "NODE_RANK",
                                                                "ROLE_RANK",
                                                                "ROLE_NAME",
                                                                "PET_NODE_RANK",
                                                                "LOCKSTEP_MACHINE",
                                                                "LOCKSTEP_ROLE",
                                                                "LOCKSTEP_ROLE_RANK",
                                                                "LOCKSTEP_ROLE_SIZE",
                                                                "PMI_RANK",
                                                                "MPI_LOCALRANKID",
                                                                "PMIX_RANK",
                                                                "OMPI_COMM_WORLD_RANK",
                                                                "OMPI_COMM_WORLD_LOCAL_RANK",
                                                                "HOROVOD_RANK",
                                                                "HOROVOD_LOCAL_RANK",
                                                                "HOROVOD_CROSS_RANK",
                                                                "HOROVOD_HOSTNAME"});

bool IsOfOneProcess(std::string_view name, const Spec& spec) {
  if (name == "ROLE_WORLD_SIZE") return !spec.roles.empty();
  return std::find(kOfOneProcess.begin(), kOfOneProcess.end(), name) != kOfOneProcess.end();
}

void ShowPlaceholder(std::pair<std::string, std::string>& variable) {
  for (const Placeholder& placeholder : kPlaceholders) {
    if (placeholder.name == variable.first) variable.second = placeholder.value;
  }
}

// An identity with every field set, so that the plan shows every variable a process may find.
ProcessIdentity PlannedIdentity(const TrainingJob& job, int machine, int local_rank) {
  ProcessIdentity identity;
  identity.machine = machine;
  identity.local_rank = local_rank;
  identity.job_uid = identity.socket_path = identity.local_dir = identity.error_file =
      identity.interface = identity.pmi_address = identity.ras_address = "-";
  identity.endpoints = {"-"};
  identity.pmix_variables = {{"PMIX_NAMESPACE", "-"},
                             {"PMIX_RANK", std::to_string(RankOf(job.spec, machine, local_rank))},
                             {"PMIX_SERVER_URI4", "-"}};
  identity.cache_dir = "<disk that survives restarts>";
  if (!job.spec.checkpoint.path.empty()) identity.checkpoint_dir = identity.resume_dir = "-";
  if (StartsFromMachine0(job.spec) && machine == 0) identity.launcher_dir = "<the generation's>";
  identity.omp_threads = 1;
  identity.has_gpu = AsksForGpus(job.spec);
  return identity;
}

Variables Select(const Variables& all, bool of_one_process, const Spec& spec) {
  Variables selected;
  for (const auto& variable : all) {
    if (IsOfOneProcess(variable.first, spec) == of_one_process) selected.push_back(variable);
  }
  return selected;
}

// The environment that all processes share, with the user's values where spec.env overrides it.
Variables CommonEnvironment(const TrainingJob& job) {
  Variables common = Select(ProcessEnvironment(job, PlannedIdentity(job, 0, 0)), false, job.spec);
  for (auto& variable : common) {
    ShowPlaceholder(variable);
    if (variable.first == "TF_CONFIG" && !job.spec.roles.empty()) {
      variable.second = R"({"cluster": {"<role>": [<IP:PORT of each of its ranks>], ...}, )"
                        R"("task": {"type": "<role>", "index": <rank in it>}})";
    }
  }
  for (const EnvVar& entry : job.spec.env) {
    const std::string value = entry.value_from.IsNull() ? entry.value : "<valueFrom>";
    const auto same = std::ranges::find(common, entry.name, &Variables::value_type::first);
    if (same == common.end()) {
      common.emplace_back(entry.name, value);
    } else if (IsUserOverridable(entry.name)) {
      same->second = value;
    }
  }
  return common;
}

PlannedMachine PlanMachine(const TrainingJob& job, int index) {
  const Spec& spec = job.spec;
  PlannedMachine machine;
  machine.index = index;
  machine.name = HostName(job.metadata.name, index);
  machine.first_rank = RankOf(spec, index, 0);
  machine.last_rank = RankOf(spec, index, spec.processes_per_machine - 1);
  for (int local_rank = 0; local_rank < ProcessesStarted(spec); ++local_rank) {
    const ProcessIdentity identity = PlannedIdentity(job, index, local_rank);
    machine.processes.push_back(
        {.local_rank = local_rank,
         .rank = RankOf(spec, index, local_rank),
         .environment = Select(ProcessEnvironment(job, identity), true, spec)});
  }
  return machine;
}

std::vector<std::string> WholeCommand(const Spec& spec) {
  std::vector<std::string> whole = spec.command;
  whole.insert(whole.end(), spec.args.begin(), spec.args.end());
  return whole;
}

bool HasEqualCommands(const Spec& spec) {
  return !spec.command.empty() && !StartsFromMachine0(spec) && spec.roles.empty() &&
         LauncherOf(WholeCommand(spec)).empty();
}

// The job's command as a launcher's last arguments: a script or a module for the launcher's own
// Python, or any program behind `no_python`.
void AppendProgram(const Spec& spec, const char* no_python, std::vector<std::string>& command) {
  std::vector<std::string> program = WholeCommand(spec);
  auto rest = program.begin();
  if (IsPython(program[0])) {
    ++rest;
    // Launchers run Python unbuffered by themselves.
    while (rest != program.end() && *rest == "-u") ++rest;
    const bool is_module = rest != program.end() && *rest == "-m";
    const bool is_script = rest != program.end() && !rest->starts_with('-');
    if (!is_module && !is_script) {
      rest = program.begin();
      command.emplace_back(no_python);
    }
  } else {
    command.emplace_back(no_python);
  }
  command.insert(command.end(), rest, program.end());
}

std::string Count(int64_t count, const std::string& noun) {
  const char* plural = count == 1 ? "" : noun.ends_with('s') ? "es" : "s";
  return std::to_string(count) + " " + noun + plural;
}

// The fewest machines that hold `processes` evenly.
int FewestMachines(int processes) {
  for (int machines = 1; machines < processes; ++machines) {
    if (processes % machines == 0 && processes / machines <= kMostProcessesPerMachine) {
      return machines;
    }
  }
  return processes;
}

}  // namespace

int64_t RankOf(const Spec& spec, int machine, int local_rank) {
  return int64_t{machine} * spec.processes_per_machine + local_rank;
}

Plan MakePlan(const TrainingJob& job) {
  const Spec& spec = job.spec;
  Plan plan;
  plan.world_size = WorldSize(spec);
  plan.num_machines = spec.num_machines;
  plan.processes_per_machine = spec.processes_per_machine;
  plan.launch = LaunchOf(spec);
  plan.command = spec.command.empty() && spec.trainer ? TrainerCommand(spec) : WholeCommand(spec);
  plan.environment = CommonEnvironment(job);
  for (int i = 0; i < spec.num_machines; ++i) plan.machines.push_back(PlanMachine(job, i));
  for (const FailureRule& rule : spec.failure_policy.rules) plan.rules.push_back({rule, false});
  for (const FailureRule& rule : DefaultRules()) plan.rules.push_back({rule, true});
  plan.torchrun = EquivalentTorchrun(job);
  plan.accelerate = EquivalentAccelerate(job);
  return plan;
}

std::vector<std::string> EquivalentTorchrun(const TrainingJob& job) {
  const Spec& spec = job.spec;
  if (!HasEqualCommands(spec)) return {};
  std::vector<std::string> command = {"torchrun"};
  if (spec.num_machines == 1) {
    command.emplace_back("--standalone");
  } else {
    command.push_back("--nnodes=" + std::to_string(spec.num_machines));
    command.emplace_back("--node-rank=MACHINE");
    command.emplace_back("--master-addr=MACHINE_0");
    command.emplace_back("--master-port=29500");
  }
  command.push_back("--nproc-per-node=" + std::to_string(spec.processes_per_machine));
  command.push_back("--max-restarts=" + std::to_string(spec.failure_policy.max_restarts));
  AppendProgram(spec, "--no-python", command);
  return command;
}

std::vector<std::string> EquivalentAccelerate(const TrainingJob& job) {
  const Spec& spec = job.spec;
  // On CPUs, accelerate starts one process or leaves several to mpirun.
  const bool on_gpus = AsksForGpus(spec);
  if (!HasEqualCommands(spec) || (!on_gpus && WorldSize(spec) > 1)) return {};
  std::vector<std::string> command = {"accelerate", "launch"};
  command.push_back("--num_processes=" + std::to_string(WorldSize(spec)));
  command.push_back("--num_machines=" + std::to_string(spec.num_machines));
  if (spec.num_machines > 1) {
    command.emplace_back("--machine_rank=MACHINE");
    command.emplace_back("--main_process_ip=MACHINE_0");
    command.emplace_back("--main_process_port=29500");
  }
  if (!on_gpus) command.emplace_back("--cpu");
  if (on_gpus && WorldSize(spec) > 1) command.emplace_back("--multi_gpu");
  AppendProgram(spec, "--no_python", command);
  return command;
}

Recommendation Recommend(const TrainingJob& job, int cores, int gpus) {
  const Spec& spec = job.spec;
  const int64_t world = WorldSize(spec);
  const bool on_gpus = gpus > 0;
  const int64_t limit = std::max(1, on_gpus ? gpus : cores);
  const auto processes = static_cast<int>(std::clamp<int64_t>(world, 1, limit));

  Recommendation advice;
  advice.num_machines = FewestMachines(processes);
  advice.processes_per_machine = processes / advice.num_machines;
  advice.reason = Count(advice.num_machines, "machine") + " with " +
                  Count(advice.processes_per_machine, "process") + ": this computer has " +
                  Count(on_gpus ? gpus : cores, on_gpus ? "GPU" : "core");
  if (world > limit) {
    advice.warnings.push_back(Count(world, "process") + " share " +
                              Count(on_gpus ? gpus : cores, on_gpus ? "GPU" : "core") +
                              ": they take turns, and the job gets slower, not faster");
  } else if (on_gpus && world > cores) {
    advice.warnings.push_back(Count(world, "process") + " share " + Count(cores, "core") +
                              ": they take turns, and the job gets slower, not faster");
  }
  if (spec.num_machines > 1 && advice.num_machines == 1) {
    advice.warnings.push_back(
        "one machine with " + Count(advice.processes_per_machine, "process") +
        " does the same on this computer, with fewer agents and faster exchanges; several machines "
        "are for trying out what a cluster will do");
  }
  return advice;
}

}  // namespace lockstep::core
