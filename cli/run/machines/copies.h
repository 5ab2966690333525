// Copies: whether mpirun, mpiexec or srun started several of this program, each of which would run
// the whole job, and what to write instead. Pure.
#ifndef LOCKSTEP_CLI_RUN_MACHINES_COPIES_H_
#define LOCKSTEP_CLI_RUN_MACHINES_COPIES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

struct Copies {
  std::string_view launcher;    // "mpirun"
  std::string_view variable;    // that says how many
  int32_t all = 0;              // more than one
  std::optional<int32_t> here;  // of them on this node

  // Those that have copies; 2, where it isn't said.
  int32_t Nodes() const;
};

// nullopt: there is none beside this one. `variable`: of the environment; "": not set.
std::optional<Copies> CopiesOf(const std::function<std::string(const std::string& name)>& variable);

// SLURM_TASKS_PER_NODE: "4", "4(x2)". nullopt: "4,2", where nodes differ, or something else.
std::optional<int32_t> TasksPerNode(std::string_view text);

struct CommandLine {
  std::vector<std::string> words;  // all behind the program's name: "run", ...
  bool says_processes = false;     // by -p, or a FILE
  bool says_hosts = false;
};

// A sentence. `allocation`: whose nodes `lockstep run` finds by itself ("SLURM's job 7"); "": none.
std::string Instead(const Copies& copies, const CommandLine& line, const std::string& allocation);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_MACHINES_COPIES_H_
