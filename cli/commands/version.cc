#include <iostream>

#include "cli/commands/app.h"
#include "cli/commands/commands.h"
#include "core/model/spec.h"

namespace lockstep::cli {

void AddVersion(CLI::App& app, Invocation* invocation) {
  CLI::App* command = app.add_subcommand("version", "Print the version and the API version");
  command->footer("");  // else it has the program's
  command->callback([invocation] {
    std::cout << "lockstep " << kVersion << " (" << core::kApiVersion << ")\n";
    invocation->exit_code = 0;
  });
}

}  // namespace lockstep::cli
