#include "cli/run/machines/copies.h"

#include <algorithm>
#include <array>

#include "base/text/ascii.h"
#include "core/plan/launcher.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kSrun = "srun";

struct Launcher {
  std::string_view name;
  std::string_view all;   // the variable that says how many it started
  std::string_view here;  // and how many of them on this node
};

// An mpirun in a SLURM allocation starts its daemons by srun, so srun's variables come last.
constexpr std::array kLaunchers = {
    Launcher{"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},  // Open MPI
    Launcher{"mpiexec", "PMI_SIZE", "MPI_LOCALNRANKS"},                        // MPICH, Intel MPI
    Launcher{kSrun, "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
};

// "a,b", "a,b,...": where hosts are to be written.
std::string SomeHosts(int32_t nodes) { return nodes > 2 ? "a,b,..." : "a,b"; }

}  // namespace

int32_t Copies::Nodes() const { return here.value_or(0) > 0 ? (all + *here - 1) / *here : 2; }

std::optional<Copies> CopiesOf(
    const std::function<std::string(const std::string& name)>& variable) {
  std::optional<Copies> found;
  for (const Launcher& launcher : kLaunchers) {
    const auto all = ParseNumber<int32_t>(variable(std::string(launcher.all)));
    if (all.value_or(1) <= 1) continue;
    const auto here = TasksPerNode(variable(std::string(launcher.here)));
    // srun speaks PMI, too, but does not say how many are here in mpiexec's words.
    if (!found || (!found->here && here)) found = {launcher.name, launcher.all, *all, here};
  }
  return found;
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

std::string Instead(const Copies& copies, const CommandLine& line, const std::string& allocation) {
  const bool by_srun = copies.launcher == kSrun;
  const bool wants_hosts = !by_srun && !line.says_hosts && allocation.empty() && copies.Nodes() > 1;
  std::vector<std::string> options;
  if (wants_hosts) options = {"--hosts", SomeHosts(copies.Nodes())};
  if (!line.says_processes && copies.here.value_or(1) > 1) {
    options.insert(options.end(), {"-p", std::to_string(*copies.here)});
  }
  std::vector<std::string> words = {"lockstep"};
  words.insert(words.end(), line.words.begin(), line.words.end());
  const auto run = std::ranges::find(words, "run");
  words.insert(run == words.end() ? run : run + 1, options.begin(), options.end());

  const std::string launcher(copies.launcher);
  std::string sentence = launcher + " started " + std::to_string(copies.all) +
                         " of this program (" + std::string(copies.variable) +
                         "), and each would run the whole job: write `" + core::ShellQuote(words) +
                         "` without " + launcher;
  if (by_srun)
    return sentence + ", in sbatch or behind `salloc -N " + std::to_string(copies.Nodes()) + "`";
  if (wants_hosts)
    return sentence + ", with its hosts for " + SomeHosts(copies.Nodes()) +
           "; their agents are started by ssh";
  if (!allocation.empty()) return sentence + "; it finds the nodes of " + allocation + " itself";
  return sentence;
}

}  // namespace lockstep::cli
