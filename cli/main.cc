// `lockstep`, and by another name `kubectl-lockstep`.
#include "cli/app.h"
#include "cli/cluster/commands.h"

int main(int argc, char** argv) {
  return lockstep::cli::Main(argc, argv, lockstep::cli::RunClusterCommand);
}
