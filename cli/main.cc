#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

#include "cli/app.h"
#include "cli/program_path.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

// Commands on clusters need libraries that have no static form; they are another program's, which
// gets the same command line (docs/adr/007-two-programs.md).
int RunNeighbour(char** argv) {
  Result<std::string> program = FindProgram("kubectl-lockstep");
  if (!program.ok()) {
    std::cerr << "lockstep: " << program.error().message
              << "; commands on clusters need it: it comes with lockstep\n";
    return core::kExitTrouble;
  }
  execv(program->c_str(), argv);
  std::cerr << "lockstep: cannot run " << *program << ": " << std::strerror(errno) << "\n";
  return core::kExitTrouble;
}

}  // namespace
}  // namespace lockstep::cli

int main(int argc, char** argv) {
  return lockstep::cli::Main(argc, argv, [argv](const lockstep::cli::ClusterCommand&) {
    return lockstep::cli::RunNeighbour(argv);
  });
}
