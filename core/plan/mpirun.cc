#include "core/plan/mpirun.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/text/ascii.h"
#include "core/model/names.h"
#include "core/plan/mpirun_options.h"

namespace lockstep::core {
namespace {

// The options for one program. An mpirun line lists several programs, with `:` between them.
struct Said {
  std::optional<int64_t> ranks;
  std::optional<int64_t> per_machine;
  std::string per_machine_by;  // as it stands there
  std::string hosts;
};

void Take(const MpirunOption& option, const std::string& name, const std::string& value,
          Said* said) {
  switch (option.meaning) {
    case MpirunMeaning::kRanks:
      said->ranks = ParseNumber<int64_t>(value);
      return;
    case MpirunMeaning::kPerMachine:
      said->per_machine = ParseNumber<int64_t>(value);
      said->per_machine_by = name + " " + value;
      return;
    case MpirunMeaning::kMapBy: {
      constexpr std::string_view kPrefix = "ppr:";
      const size_t end = value.find(':', kPrefix.size());
      if (!value.starts_with(kPrefix) || end == std::string::npos) return;
      if (!std::string_view(value).substr(end).starts_with(":node")) return;
      said->per_machine = ParseNumber<int64_t>(value.substr(kPrefix.size(), end - kPrefix.size()));
      said->per_machine_by = name + " " + value;
      return;
    }
    case MpirunMeaning::kHosts:
      said->hosts = value;
      return;
    case MpirunMeaning::kOther:
      return;
  }
}

// The options before the program.
Said Read(std::span<const std::string> words) {
  Said said;
  for (size_t i = 0; i < words.size() && words[i].starts_with('-');) {
    const size_t dashes = words[i].starts_with("--") ? 2 : 1;
    const size_t equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const MpirunOption* option = FindMpirunOption(std::string_view(name).substr(dashes));
    if (option == nullptr) break;
    const bool joined = equals != std::string::npos;
    const std::string_view next = i + 1 < words.size() ? words[i + 1] : std::string_view();
    const size_t values = joined ? 0 : static_cast<size_t>(WordsThatFollow(option->values, next));
    if (i + values >= words.size()) break;
    if (option->values == 1) {
      Take(*option, name, joined ? words[i].substr(equals + 1) : words[i + 1], &said);
    }
    i += 1 + values;
  }
  return said;
}

// Machine 0 runs mpirun, and goes by more names than one.
bool NamesMachine(std::string_view hosts, const std::string& name) {
  while (!hosts.empty()) {
    std::string_view host = hosts.substr(0, hosts.find(','));
    hosts.remove_prefix(std::min(hosts.size(), host.size() + 1));
    host = host.substr(0, host.find(':'));
    if (host.substr(0, host.find('.')) == name) return true;
  }
  return false;
}

std::string Number(int64_t number) { return std::to_string(number); }

std::string OtherHosts(const std::string& hosts, const TrainingJob& job) {
  for (int machine = 1; machine < job.spec.num_machines; ++machine) {
    if (NamesMachine(hosts, HostName(job.metadata.name, machine))) continue;
    return "leave the list of hosts out of mpirun's options: it does not name machine " +
           Number(machine) + " (" + HostName(job.metadata.name, machine) +
           "), and Lockstep itself gives mpirun all machines of the job";
  }
  return "";
}

}  // namespace

std::string OtherWorldOf(const std::vector<std::string>& words, const TrainingJob& job) {
  const int64_t world = WorldSize(job.spec);
  int64_t ranks = 0;
  bool all_say = true;
  for (auto start = words.begin() + (words.empty() ? 0 : 1); start < words.end();) {
    const auto end = std::find(start, words.end(), ":");
    const Said said = Read({start, end});
    ranks += said.ranks.value_or(0);
    all_say = all_say && said.ranks;
    if (said.per_machine && *said.per_machine != job.spec.processes_per_machine) {
      return "mpirun's " + said.per_machine_by +
             " and processesPerMachine: " + Number(job.spec.processes_per_machine) +
             " must be the same number";
    }
    if (std::string why = said.hosts.empty() ? "" : OtherHosts(said.hosts, job); !why.empty()) {
      return why;
    }
    start = end == words.end() ? end : end + 1;
  }
  if (!all_say || ranks == 0 || ranks == world) return "";
  return "write -np " + Number(world) + ": mpirun would start " + Number(ranks) + " of the " +
         Number(world) + " processes that numMachines and processesPerMachine make";
}

}  // namespace lockstep::core
