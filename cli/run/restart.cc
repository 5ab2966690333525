#include "cli/run/restart.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <vector>

#include "cli/run/run_server.h"
#include "cli/say.h"
#include "core/exit_codes.h"
#include "worker/place/run_folder.h"

namespace lockstep::cli {

std::string UserName() {
  for (const char* variable : {"USER", "LOGNAME"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr && *value != '\0') return value;
  }
  return "uid " + std::to_string(getuid());
}

std::optional<int> RestartHere(const RestartCommand& command) {
  std::vector<place::RunUnderWay> runs = place::RunsUnderWay();
  std::erase_if(runs, [](const place::RunUnderWay& run) { return run.job.empty(); });
  if (command.pid != 0) {
    std::erase_if(runs, [&](const place::RunUnderWay& run) { return run.pid != command.pid; });
  }
  if (!command.name.empty()) {
    std::erase_if(runs, [&](const place::RunUnderWay& run) { return run.job != command.name; });
    if (runs.empty() && command.pid == 0) return std::nullopt;
  }
  if (runs.empty()) {
    Say(command.pid != 0
            ? "process " + std::to_string(command.pid) + " is not a `lockstep run` of yours"
            : "you have no `lockstep run` on this computer; for a job of a cluster give its NAME");
    return core::kExitNotFound;
  }
  if (runs.size() > 1) {
    std::string names;
    for (const place::RunUnderWay& run : runs) names += (names.empty() ? "" : ", ") + run.job;
    Say(std::to_string(runs.size()) + " runs are active here" +
        (command.name.empty() ? ": name one of " + names
                              : " have that name: choose one with --pid"));
    return core::kExitUsage;
  }
  const Result<Json> answer = AskRun(runs.front().folder, {{"restart",
                                                            {{"reason", command.reason},
                                                             {"requestedBy", UserName()},
                                                             {"atCommit", command.at_commit}}}});
  if (!answer.ok()) {
    Say(answer.error().message);
    return core::kExitTrouble;
  }
  std::cout << "run " << runs.front().job
            << (command.at_commit ? " restarts at its next commit\n" : " restarts\n");
  return core::kExitSuccess;
}

}  // namespace lockstep::cli
