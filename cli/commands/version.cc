#include <iostream>

#include "cli/app.h"
#include "cli/commands/commands.h"
#include "core/model/spec.h"

namespace lockstep::cli {

void AddVersion(CLI::App& app, Invocation* invocation) {
  app.add_subcommand("version", "Print the version and the API version")->callback([invocation] {
    std::cout << "lockstep " << kVersion << " (" << core::kApiVersion << ")\n";
    invocation->exit_code = 0;
  });
}

}  // namespace lockstep::cli
