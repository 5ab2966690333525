#include "cli/run/machines/nodes.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "base/text/ascii.h"
#include "core/plan/launcher.h"
#include "core/plan/leftovers.h"

namespace lockstep::cli {
namespace {

using std::string_view_literals::operator""sv;

constexpr int32_t kMostSlots = 1 << 16;
constexpr std::string_view kHostCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-@:";

bool IsHost(std::string_view name) {
  return !name.empty() && name.front() != '-' &&
         name.find_first_not_of(kHostCharacters) == std::string::npos;
}

// A batch system that gives its job a file of hosts.
struct BatchSystem {
  std::string_view name;
  std::string_view job;   // the variable with the job's number
  std::string_view file;  // and with the file's path
};

constexpr std::array kBatchSystems = {
    BatchSystem{"PBS", "PBS_JOBID", "PBS_NODEFILE"},
    BatchSystem{"LSF", "LSB_JOBID", "LSB_DJOB_HOSTFILE"},
    BatchSystem{"Grid Engine", "JOB_ID", "PE_HOSTFILE"},
};

// More than one task a node, else its GPUs. Where nobody asked for tasks, SLURM says as many of
// them as a node has CPUs.
Result<std::optional<int32_t>> ProcessesOf(const NodesRequest& request) {
  const bool asked = !request.variable("SLURM_NTASKS").empty() ||
                     !request.variable("SLURM_NTASKS_PER_NODE").empty();
  const std::string tasks = asked ? request.variable("SLURM_TASKS_PER_NODE") : "";
  const std::optional<int32_t> each = TasksPerNode(tasks);
  if (!tasks.empty() && !each) {
    return Error::Invalid(
        "SLURM's tasks differ from node to node (" + tasks +
        "), and a job has as many processes on each: ask for --ntasks-per-node, or give -p");
  }
  if (each.value_or(1) > 1) return each;
  return ParseNumber<int32_t>(request.variable("SLURM_GPUS_ON_NODE"));
}

Result<Nodes> FromSlurm(const NodesRequest& request, const std::string& whose,
                        const std::string& list) {
  Nodes nodes;
  nodes.by = Reach::kSrun;
  nodes.whose = whose + " has";
  Result<std::vector<std::string>> names = request.expand(list);
  if (!names.ok()) {
    return Error::Invalid("this is in " + whose + ", whose nodes cannot be found: " +
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

Result<Nodes> FromBatchSystem(const NodesRequest& request, const std::string& whose,
                              const std::string& file) {
  const auto unknown = [&](const Error& error) {
    return Error::Invalid("this is in " + whose + ", whose nodes cannot be found: " +
                          error.message + "; --local runs all machines here");
  };
  const Result<std::string> text = request.read(file);
  if (!text.ok()) return unknown(text.error());
  const Result<std::vector<HostSlots>> hosts = ParseHostFile(*text);
  if (!hosts.ok()) return unknown(Error::Invalid(file + ": " + hosts.error().message));
  if (hosts->size() < 2) return Nodes{};  // this computer
  Nodes nodes;
  nodes.by = Reach::kSsh;
  nodes.whose = whose + " has";
  const int32_t slots = hosts->front().slots;
  for (const HostSlots& each : *hosts) {
    nodes.names.push_back(each.host);
    if (each.slots != slots) {
      nodes.unclear = "the slots of " + whose + " differ from node to node (" +
                      std::to_string(slots) + " on " + hosts->front().host + ", " +
                      std::to_string(each.slots) + " on " + each.host +
                      "), and a job has as many processes on each: give -p";
    }
  }
  if (slots > 1 && nodes.unclear.empty()) nodes.processes = slots;
  return nodes;
}

// The batch job that this runs in, and the nodes that it has.
struct Allocation {
  std::string whose;  // "PBS's job 7"; "": there is none
  std::string nodes;  // SLURM's short form, or the path of a file
  bool slurm = false;
};

Allocation AllocationOf(const NodesRequest& request) {
  const auto named = [&](std::string_view system, std::string_view job, std::string_view nodes) {
    Allocation found;
    const std::string number = request.variable(std::string(job));
    found.nodes = request.variable(std::string(nodes));
    if (!number.empty() && !found.nodes.empty()) {
      found.whose = std::string(system) + "'s job " + number;
    }
    return found;
  };
  Allocation found = named("SLURM", "SLURM_JOB_ID", "SLURM_JOB_NODELIST");
  found.slurm = true;
  for (const BatchSystem& system : kBatchSystems) {
    if (!found.whose.empty()) break;
    found = named(system.name, system.job, system.file);
  }
  return found;
}

struct Trouble {
  std::optional<Reach> by;  // null: any
  std::string_view words;
  std::string_view advice;
};

constexpr std::string_view kArchitecture =
    "the agent there is for another architecture; name the right one with --agent";
constexpr std::string_view kNoAgent = "copy lockstep-agent there, and name its path with --agent";

constexpr std::array kTroubles = {
    Trouble{Reach::kSrun, "unrecognized option '--overlap'",
            "`lockstep run` needs SLURM 20.11 or later"},
    Trouble{Reach::kSrun, "Unable to confirm allocation",
            "the allocation is over; --local runs all machines here"},
    Trouble{std::nullopt, "Exec format error", kArchitecture},
    Trouble{std::nullopt, "cannot execute binary file", kArchitecture},
    Trouble{Reach::kSrun, "No such file or directory",
            "the agent must be at the same path on all nodes; name it with --agent"},
    Trouble{Reach::kSsh, "Host key verification failed",
            "log in there once by hand, so that ssh knows its key"},
    Trouble{Reach::kSsh, "Permission denied (",
            "it must accept you without a password: by a key, with an ssh-agent if the key has a "
            "passphrase"},
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
    if (!IsHost(host)) {
      return Error::Invalid("--hosts: \"" + host + "\" is not the name of a host");
    }
    if (!seen.insert(host).second) {
      return Error::Invalid("--hosts names " + host + " twice; each host is one machine");
    }
    hosts.push_back(host);
    if (comma == std::string_view::npos) return hosts;
    list.remove_prefix(comma + 1);
  }
}

Result<std::vector<HostSlots>> ParseHostFile(std::string_view text) {
  std::vector<HostSlots> hosts;
  std::map<std::string, size_t> places;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string host;
    std::string slots;
    if (!(words >> host)) continue;
    words >> slots;
    if (!IsHost(host)) return Error::Invalid("\"" + host + "\" is not the name of a host");
    const auto [place, is_new] = places.emplace(host, hosts.size());
    if (is_new) hosts.push_back({host});
    hosts[place->second].slots +=
        std::clamp(ParseNumber<int32_t>(slots).value_or(1), 0, kMostSlots);
  }
  return hosts;
}

Result<Nodes> FindNodes(const NodesRequest& request) {
  if (request.local && !request.hosts.empty()) {
    return Error::Invalid("--local and --hosts contradict each other");
  }
  if (request.local) return Nodes{};
  const Allocation allocation = AllocationOf(request);
  if (const std::optional<Copies> copies = CopiesOf(request.variable)) {
    return Error::Invalid(Instead(*copies, request.line, allocation.whose));
  }
  if (!request.hosts.empty()) {
    Result<std::vector<std::string>> hosts = ParseHosts(request.hosts);
    if (!hosts.ok()) return hosts.error();
    Nodes nodes;
    nodes.by = Reach::kSsh;
    nodes.names = std::move(*hosts);
    nodes.whose = "--hosts names";
    return nodes;
  }
  if (allocation.whose.empty()) return Nodes{};
  return allocation.slurm ? FromSlurm(request, allocation.whose, allocation.nodes)
                          : FromBatchSystem(request, allocation.whose, allocation.nodes);
}

Result<Nodes> FirstOf(Nodes nodes, int32_t machines) {
  if (!nodes.remote()) return nodes;
  const auto wanted = static_cast<size_t>(machines);
  const size_t count = nodes.names.size();
  if (wanted > count) {
    return Error::Invalid("the job has " + std::to_string(wanted) + " machines, and " +
                          nodes.whose + " " + std::to_string(count) +
                          (count == 1 ? " node" : " nodes") + ": give -m " + std::to_string(count) +
                          ", or ask for more");
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
