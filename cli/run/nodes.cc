#include "cli/run/nodes.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/text/ascii.h"
#include "core/plan/launcher.h"
#include "core/plan/leftovers.h"

namespace lockstep::cli {
namespace {

using std::string_view_literals::operator""sv;

constexpr std::string_view kHostCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@:";

// How many processes a launcher started beside this one, by the variable that says so.
constexpr std::array kWorldSizes = {"OMPI_COMM_WORLD_SIZE"sv, "PMI_SIZE"sv,
                                    "SLURM_STEP_NUM_TASKS"sv};

// Each of them would run the whole job.
Status CheckAlone(const NodesRequest& request) {
  for (const std::string_view name : kWorldSizes) {
    const auto size = ParseNumber<int32_t>(request.variable(std::string(name)));
    if (size.value_or(1) <= 1) continue;
    return Error::Invalid(
        "a launcher started " + std::to_string(*size) + " of this program (" + std::string(name) +
        "), and each would run the whole job: start it once, in sbatch or salloc without srun, or "
        "without mpirun as `lockstep run --hosts a,b ...`");
  }
  return {};
}

// More than one task a node, else its GPUs. Where nobody asked for tasks, SLURM says as many of
// them as a node has CPUs.
Result<std::optional<int32_t>> ProcessesOf(const NodesRequest& request) {
  const bool asked = !request.variable("SLURM_NTASKS").empty() ||
                     !request.variable("SLURM_NTASKS_PER_NODE").empty();
  const std::string tasks = asked ? request.variable("SLURM_TASKS_PER_NODE") : "";
  const std::optional<int32_t> each = TasksPerNode(tasks);
  if (!tasks.empty() && !each) {
    return Error::Invalid("SLURM's tasks differ from node to node (" + tasks +
                          "), and a job has as many processes on each: ask for --ntasks-per-node, "
                          "or say -p");
  }
  if (each.value_or(1) > 1) return each;
  return ParseNumber<int32_t>(request.variable("SLURM_GPUS_ON_NODE"));
}

Result<Nodes> FromSlurm(const NodesRequest& request, const std::string& job) {
  const std::string list = request.variable("SLURM_JOB_NODELIST");
  Nodes nodes;
  nodes.by = Reach::kSrun;
  nodes.whose = "SLURM's job " + job + " has";
  Result<std::vector<std::string>> names = request.expand(list);
  if (!names.ok()) {
    return Error::Invalid("this is in SLURM's job " + job + ", whose nodes cannot be told: " +
                          names.error().message + "; --local runs all machines here");
  }
  nodes.names = std::move(*names);
  Result<std::optional<int32_t>> processes = ProcessesOf(request);
  if (processes.ok()) {
    nodes.processes = *processes;
  } else {
    nodes.unclear = processes.error().message;
  }
  return nodes;
}

struct Trouble {
  std::optional<Reach> by;  // null: any
  std::string_view words;
  std::string_view advice;
};

constexpr std::string_view kArchitecture =
    "the agent there is of another architecture; --agent names the one for these machines";
constexpr std::string_view kNoAgent = "copy lockstep-agent there; --agent names its path";

constexpr std::array kTroubles = {
    Trouble{Reach::kSrun, "unrecognized option '--overlap'",
            "`lockstep run` needs SLURM 20.11 or later"},
    Trouble{Reach::kSrun, "Unable to confirm allocation",
            "the allocation is over; --local runs all machines here"},
    Trouble{std::nullopt, "Exec format error", kArchitecture},
    Trouble{std::nullopt, "cannot execute binary file", kArchitecture},
    Trouble{Reach::kSrun, "No such file or directory",
            "the agent must be at the same path on all nodes; --agent names it"},
    Trouble{Reach::kSsh, "Host key verification failed",
            "log in there once by hand, so that its key is known"},
    Trouble{Reach::kSsh, "Permission denied (",
            "it must let you in without a password: by a key, and an ssh-agent if that has one"},
    Trouble{Reach::kSsh, "not found", kNoAgent},
    Trouble{Reach::kSsh, "No such file", kNoAgent},
};

}  // namespace

Result<std::vector<std::string>> ParseHosts(std::string_view list) {
  std::vector<std::string> hosts;
  std::set<std::string> seen;
  while (true) {
    const size_t comma = list.find(',');
    const std::string host(Trim(list.substr(0, comma)));
    if (host.empty() || host.front() == '-' ||
        host.find_first_not_of(kHostCharacters) != std::string::npos) {
      return Error::Invalid("--hosts: \"" + host + "\" is no name of a host");
    }
    if (!seen.insert(host).second) {
      return Error::Invalid("--hosts names " + host + " twice; each host is one machine");
    }
    hosts.push_back(host);
    if (comma == std::string_view::npos) return hosts;
    list.remove_prefix(comma + 1);
  }
}

std::optional<int32_t> TasksPerNode(std::string_view text) {
  const size_t times = text.find("(x");
  if (times != std::string_view::npos) {
    if (!text.ends_with(')')) return std::nullopt;
    const std::string_view count = text.substr(times + 2, text.size() - times - 3);
    if (!ParseNumber<int32_t>(count)) return std::nullopt;
    text = text.substr(0, times);
  }
  return ParseNumber<int32_t>(text);
}

Result<Nodes> FindNodes(const NodesRequest& request) {
  if (request.local && !request.hosts.empty()) {
    return Error::Invalid("--local and --hosts say two things");
  }
  if (request.local) return Nodes{};
  if (Status alone = CheckAlone(request); !alone.ok()) return alone.error();
  if (!request.hosts.empty()) {
    Result<std::vector<std::string>> hosts = ParseHosts(request.hosts);
    if (!hosts.ok()) return hosts.error();
    Nodes nodes;
    nodes.by = Reach::kSsh;
    nodes.names = std::move(*hosts);
    nodes.whose = "--hosts names";
    return nodes;
  }
  const std::string job = request.variable("SLURM_JOB_ID");
  if (!job.empty() && !request.variable("SLURM_JOB_NODELIST").empty()) {
    return FromSlurm(request, job);
  }
  return Nodes{};
}

Result<Nodes> FirstOf(Nodes nodes, int32_t machines) {
  if (!nodes.remote()) return nodes;
  const auto wanted = static_cast<size_t>(machines);
  const size_t count = nodes.names.size();
  if (wanted > count) {
    return Error::Invalid("the job has " + std::to_string(wanted) + " machines, and " +
                          nodes.whose + " " + std::to_string(count) +
                          (count == 1 ? " node" : " nodes") + ": say -m " + std::to_string(count) +
                          ", or take more");
  }
  nodes.names.resize(wanted);
  return nodes;
}

std::vector<std::string> CommandOn(Reach by, const std::string& node, const std::string& agent,
                                   const std::vector<std::string>& arguments) {
  std::vector<std::string> command;
  if (by == Reach::kSrun) {
    command = {"srun",       "--overlap",          "--nodes=1",
               "--ntasks=1", "--nodelist=" + node, "--cpu-bind=none",
               "--mpi=none", "--unbuffered",       "--job-name=lockstep",
               agent};
  } else {
    // It never asks anything, and a host that is gone is known to be within 15 s.
    command = {"ssh", "-T"};
    for (const char* option :
         {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3",
          "ControlPath=none", "ClearAllForwardings=yes", "LogLevel=ERROR"}) {
      command.insert(command.end(), {"-o", option});
    }
    command.insert(command.end(), {"--", node, "exec", core::ShellQuote({agent})});
  }
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

std::vector<std::string> ClientEnvironment(std::vector<std::string> environment) {
  constexpr std::array kept = {"SLURM_CONF"sv, "SLURM_JOB_ID"sv, "SLURM_JOBID"sv,
                               "SLURM_WORKING_CLUSTER"sv};
  std::erase_if(environment, [&](const std::string& entry) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    return core::IsLeftover(name) && std::ranges::find(kept, name) == kept.end();
  });
  return environment;
}

std::string AdviceOn(Reach by, std::string_view words) {
  for (const Trouble& trouble : kTroubles) {
    const bool its = !trouble.by || trouble.by == by;
    if (its && words.find(trouble.words) != std::string_view::npos) {
      return std::string(trouble.advice);
    }
  }
  return "";
}

}  // namespace lockstep::cli
