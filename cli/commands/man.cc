// A hidden command for packages: manual pages of the program and of each of its commands.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/man/man_page.h"
#include "base/version.h"
#include "cli/commands/commands.h"
#include "cli/say.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

bool WritePage(const std::string& folder, const CLI::App& app, const ManFacts& facts) {
  return WriteOrSay(folder + "/" + ManPageName(app) + ".1", ManPage(app, facts));
}

int WritePages(const std::string& folder, const CLI::App& app) {
  if (std::error_code error; !std::filesystem::is_directory(folder, error)) {
    Say("man: " + folder + " is not a folder; make it first");
    return core::kExitUsage;
  }
  ManFacts facts{.version = kVersion, .date = ManDate(), .also = {}, .aliases = {}};
  ManFacts main = facts;
  main.also = {"lockstep-agent", "lockstep-operator", "lockstep-pmix", "lockstep-s3"};
  main.aliases = {"kubectl-lockstep"};
  bool written = WritePage(folder, app, main) &&
                 WriteOrSay(folder + "/kubectl-lockstep.1", ".so man1/lockstep.1\n");
  facts.also = {"lockstep"};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (IsHidden(*command)) continue;
    facts.takes_command_line =
        std::ranges::find(kTakesCommandLine, command->get_name()) != kTakesCommandLine.end();
    written = written && WritePage(folder, *command, facts);
  }
  return written ? core::kExitSuccess : core::kExitTrouble;
}

}  // namespace

void AddMan(CLI::App& app, Invocation* invocation) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "man", "Write manual pages to a folder, for packages; SOURCE_DATE_EPOCH sets their date");
  command->add_option("FOLDER", *folder, "An existing folder")->required();
  command->group("");  // hidden
  command->callback(
      [&app, folder, invocation] { invocation->exit_code = WritePages(*folder, app); });
}

}  // namespace lockstep::cli
