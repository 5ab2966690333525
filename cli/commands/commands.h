// One function a command: each adds itself to the program and sets `exit_code` when it has run.
// The invocation must outlive the App.
#ifndef LOCKSTEP_CLI_COMMANDS_COMMANDS_H_
#define LOCKSTEP_CLI_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster_command.h"

namespace lockstep::cli {

struct Invocation {
  bool of_kubectl = false;           // called as kubectl-lockstep
  std::vector<std::string> words;    // all behind the program's name
  std::vector<std::string> command;  // the words behind the first --, which CLI11 does not get
  RunOnCluster on_cluster;
  int exit_code = 0;
};

// `-- COMMAND...` may follow the options of these.
inline constexpr std::array<std::string_view, 4> kTakesCommandLine = {"run", "plan", "convert",
                                                                      "tune"};

// Hidden commands are in no help and no completion.
inline bool IsHidden(const CLI::App& command) { return command.get_group().empty(); }

// Options that name a cluster, as kubectl has them.
std::shared_ptr<ClusterAddress> AddClusterAddress(CLI::App* command);

void AddRun(CLI::App& app, Invocation* invocation);
void AddValidate(CLI::App& app, Invocation* invocation);
void AddPlan(CLI::App& app, Invocation* invocation);
void AddTune(CLI::App& app, Invocation* invocation);
void AddConvert(CLI::App& app, Invocation* invocation);
void AddTopology(CLI::App& app, Invocation* invocation);
void AddUi(CLI::App& app, Invocation* invocation);
void AddMcp(CLI::App& app, Invocation* invocation);
void AddBench(CLI::App& app, Invocation* invocation);
void AddClusterCommands(CLI::App& app, Invocation* invocation);
void AddCompletion(CLI::App& app, Invocation* invocation);
void AddMan(CLI::App& app, Invocation* invocation);
void AddVersion(CLI::App& app, Invocation* invocation);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_COMMANDS_H_
