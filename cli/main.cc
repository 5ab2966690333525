// `lockstep`, and by another name `kubectl-lockstep`.
#include "cli/cluster/commands.h"
#include "cli/commands/app.h"

int main(int argc, char** argv) {
  return lockstep::cli::Main(argc, argv, lockstep::cli::RunClusterCommand);
}
