// What the commands on clusters are asked to do: the command line, typed. `lockstep` only parses
// it; cli/cluster carries it out.
#ifndef LOCKSTEP_CLI_CLUSTER_COMMAND_H_
#define LOCKSTEP_CLI_CLUSTER_COMMAND_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::cli {

// Empty: as kubectl finds it.
struct ClusterAddress {
  std::string kubeconfig{};
  std::string context{};
  std::string name_space{};
};

struct SubmitCommand {
  std::vector<std::string> files{};
  bool replace = false;
  bool dry_run = false;
};

struct ListCommand {
  bool here = false;  // runs on this computer instead
  bool all_namespaces = false;
  std::string output = "table";  // table, wide, json, yaml
};

struct StatusCommand {
  std::string name{};
  std::string output = "text";  // text, json, yaml
  bool watch = false;
};

struct LogsCommand {
  std::string name{};
  std::optional<int32_t> rank{};  // at most one of the two
  std::optional<int32_t> machine{};
  std::optional<int32_t> tail{};  // lines of each machine
  bool follow = false;
};

struct WhyCommand {
  std::string name{};
};

struct DebugCommand {
  std::string name{};  // "": what `lockstep run` runs on this computer
  std::optional<int32_t> rank{};
  bool kernel = false;
};

// The page of a job, or of all jobs.
struct UiCommand {
  std::string name{};  // "": all
  uint16_t port = 0;   // 0: a free one
  // For many people, each with a token of their own; "": for this user.
  std::string serve{};               // the address to listen on, as "8080"
  std::string health{};              // that of probes; "": none
  std::vector<std::string> hosts{};  // the names of that server
  bool forwarded = false;            // a proxy in front writes X-Forwarded-For
  std::string kept{};                // the folder of kept pages that it shows; "": none
  // Keeps pages there and serves none; "": does not.
  std::string keep{};
  std::vector<std::string> keep_namespaces{};  // whose jobs; none: all
  int keep_jobs = 100;                         // a namespace
  int keep_days = 30;
};

struct RestartCommand {
  std::string name{};  // "": the only run on this computer
  int pid = 0;         // of a `lockstep run` on this computer; 0: any
  std::string reason{};
  bool at_commit = false;
};

struct SyncCommand {
  std::string name{};
  std::string folder{};
  bool watch = false;
};

struct SuspendCommand {
  std::string name{};
  bool suspend = true;  // false: resume
};

struct ScaleCommand {
  std::string name{};
  int32_t machines = 0;
};

struct DeleteCommand {
  std::vector<std::string> names{};
  bool wait = true;
};

struct ClusterCommand {
  ClusterAddress where;
  std::variant<SubmitCommand, ListCommand, StatusCommand, LogsCommand, WhyCommand, DebugCommand,
               RestartCommand, SuspendCommand, ScaleCommand, DeleteCommand, UiCommand, SyncCommand>
      what;
  // A run of that name on this computer is meant, if there is one: status, logs, why.
  bool here_first = false;
};

// Returns the exit code.
using RunOnCluster = std::function<int(const ClusterCommand&)>;

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_CLUSTER_COMMAND_H_
