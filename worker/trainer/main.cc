// lockstep-trainer: the program of jobs that name no command.
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "base/version.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/commands/commands.h"
#include "worker/trainer/process/exit_code.h"

namespace {

int Run(int argc, char** argv) {
  try {
    int exit_code = 0;
    CLI::App app("Data-parallel training of a GPT in C++: the built-in workload of Lockstep",
                 "lockstep-trainer");
    app.get_formatter()->column_width(34);
    app.set_version_flag("--version", std::string("lockstep-trainer ") + lockstep::kVersion);
    app.require_subcommand(1);
    lockstep::trainer::AddJob(app, &exit_code);
    lockstep::trainer::AddTrain(app, &exit_code);
    lockstep::trainer::AddGenerate(app, &exit_code);
    lockstep::trainer::AddBench(app, &exit_code);
    lockstep::trainer::AddAnalyze(app, &exit_code);
    lockstep::trainer::AddPreflight(app, &exit_code);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      const int code = app.exit(error);
      return code == 0 ? 0 : lockstep::core::kExitUsage;
    }
    return exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep-trainer: %s\n", error.what());
    return lockstep::core::kExitTrouble;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int exit_code = Run(argc, argv);
  if (!lockstep::collectives::ThreadsLeftBehind()) return exit_code;
  std::fflush(nullptr);
  _exit(exit_code);
}
