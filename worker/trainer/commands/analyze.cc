#include "worker/trainer/collectives/store/analyze.h"

#include <cstdio>
#include <memory>
#include <string>

#include "worker/trainer/commands/commands.h"
#include "worker/trainer/process/exit_code.h"

namespace lockstep::trainer {

void AddAnalyze(CLI::App& app, int* exit_code) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "analyze", "Name the rank that the others waited for, from their evidence");
  command->add_option("folder", *folder, "with the ranks' rank-NNNNN.json")->required();
  command->callback([folder, exit_code] {
    const Result<std::string> found = collectives::Analyze(*folder);
    if (found.ok()) {
      std::printf("%s\n", found->c_str());
      return;
    }
    Complain(found.error());
    *exit_code = ExitCodeOf(found.error());
  });
}

}  // namespace lockstep::trainer
