// Nodes: where the machines of a run are: all on this computer, or one on each node of a SLURM
// allocation, reached by srun, or on each of a list of hosts, which the user or the job of another
// batch system has, reached by ssh. Pure.
#ifndef LOCKSTEP_CLI_RUN_MACHINES_NODES_H_
#define LOCKSTEP_CLI_RUN_MACHINES_NODES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/run/machines/copies.h"

namespace lockstep::cli {

enum class Reach : uint8_t { kHere, kSrun, kSsh };

struct Nodes {
  Reach by = Reach::kHere;
  std::vector<std::string> names;    // one machine each; empty: this computer
  std::optional<int32_t> processes;  // on each, as the allocation says
  std::string unclear = {};          // why it says none, where it was asked for some
  std::string whose;                 // "SLURM's job 7 has", "--hosts names"; for messages

  bool remote() const { return by != Reach::kHere; }
};

struct NodesRequest {
  CommandLine line;
  std::string hosts;                                             // --hosts: "a,b"; "": not said
  bool local = false;                                            // --local
  std::function<std::string(const std::string& name)> variable;  // of the environment; "": not set
  // The nodes that SLURM's short form "n[1-3],m1" names.
  std::function<Result<std::vector<std::string>>(const std::string& list)> expand;
  std::function<Result<std::string>(const std::string& path)> read;  // a small file
};

// Invalid: the request can't be met; the message says what to write instead.
Result<Nodes> FindNodes(const NodesRequest& request);

// --hosts. Invalid: a name twice, or one that is none.
Result<std::vector<std::string>> ParseHosts(std::string_view list);

// A batch system's list of hosts: a line for each slot, "HOST", or for each host, "HOST SLOTS ...".
// Invalid: what is no name of a host stands first on one.
struct HostSlots {
  std::string host;
  int32_t slots = 0;

  bool operator==(const HostSlots&) const = default;
};
Result<std::vector<HostSlots>> ParseHostFile(std::string_view text);

// The first `machines` of them; Invalid, with a sentence, where there are fewer.
Result<Nodes> FirstOf(Nodes nodes, int32_t machines);

// The command line that starts `agent` on the node with `arguments`, which are plain words.
std::vector<std::string> CommandOn(Reach by, const std::string& node, const std::string& agent,
                                   const std::vector<std::string>& arguments);

// What srun and ssh get of the environment: nothing by which a launcher told a process who it is,
// and of SLURM's the allocation alone, for srun takes the rest for its options.
std::vector<std::string> ClientEnvironment(std::vector<std::string> environment);

// What to do about the words with which srun or ssh, or the program there, ended; "" when unknown.
std::string AdviceOn(Reach by, std::string_view words);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_MACHINES_NODES_H_
