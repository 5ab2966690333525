#include "core/plan/mpirun.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/text/ascii.h"
#include "core/model/names.h"

namespace lockstep::core {
namespace {

enum class What : uint8_t { kRanks, kPerMachine, kMapBy, kHosts, kOther };

struct Option {
  std::string_view names;  // without dashes, blanks around each
  int values;              // words that follow
  What what = What::kOther;
};
constexpr auto kOptions = std::to_array<Option>({
    {" np n c ", 1, What::kRanks},
    {" npernode N ppn perhost ranks-per-node ", 1, What::kPerMachine},
    {" map-by ", 1, What::kMapBy},
    {" host H hosts ", 1, What::kHosts},
    {" mca gmca pmca omca pmixmca prtemca env genv ", 2},
    {" hostfile machinefile f x wdir wd genvlist envlist tune am prefix path bind-to rank-by "
     "cpus-per-proc cpus-per-rank cpu-set cpu-list display rankfile rf output-filename "
     "outfile-pattern output errfile-pattern stdin s timeout bootstrap launcher rmk bootstrap-exec "
     "launcher-exec iface plm-rsh-agent runtime-options personality ",
     1},
    {" genvall envall genvnone envnone bynode byslot bycore bind-to-core bind-to-socket "
     "bind-to-none report-bindings display-map display-allocation display-devel-map oversubscribe "
     "nooversubscribe use-hwthread-cpus allow-run-as-root tag-output timestamp-output "
     "merge-stderr-to-stdout prepend-rank l q quiet v verbose d xml novm disable-auto-cleanup "
     "enable-recovery continuous ",
     0},
});

const Option* Find(std::string_view name) {
  const std::string wanted = " " + std::string(name) + " ";
  const auto found = std::ranges::find_if(kOptions, [&](const Option& option) {
    return option.names.find(wanted) != std::string_view::npos;
  });
  return found == kOptions.end() ? nullptr : &*found;
}

// The options for one program. An mpirun line lists several programs, with `:` between them.
struct Said {
  std::optional<int64_t> ranks;
  std::optional<int64_t> per_machine;
  std::string per_machine_by;  // as it stands there
  std::string hosts;
};

void Take(const Option& option, const std::string& name, const std::string& value, Said* said) {
  switch (option.what) {
    case What::kRanks:
      said->ranks = ParseNumber<int64_t>(value);
      return;
    case What::kPerMachine:
      said->per_machine = ParseNumber<int64_t>(value);
      said->per_machine_by = name + " " + value;
      return;
    case What::kMapBy: {
      constexpr std::string_view kPrefix = "ppr:";
      const size_t end = value.find(':', kPrefix.size());
      if (!value.starts_with(kPrefix) || end == std::string::npos) return;
      if (!std::string_view(value).substr(end).starts_with(":node")) return;
      said->per_machine = ParseNumber<int64_t>(value.substr(kPrefix.size(), end - kPrefix.size()));
      said->per_machine_by = name + " " + value;
      return;
    }
    case What::kHosts:
      said->hosts = value;
      return;
    case What::kOther:
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
    const Option* option = Find(std::string_view(name).substr(dashes));
    if (option == nullptr) break;
    const bool joined = equals != std::string::npos;
    size_t values = joined ? 0 : static_cast<size_t>(option->values);
    // -genv NAME=VALUE is -genv NAME VALUE.
    if (values == 2 && i + 1 < words.size() && words[i + 1].find('=') != std::string::npos) {
      values = 1;
    }
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
           "), and Lockstep tells mpirun all machines of the job by itself";
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
