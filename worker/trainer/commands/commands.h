// The subcommands of `lockstep-trainer`: each adds itself to the parser, and sets the exit code.
#ifndef LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_
#define LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "base/text/enum_names.h"

namespace lockstep::trainer {

// An option whose values have names, in any case and with or without dashes; its help shows them,
// and the one that stands by default.
template <core::NamedEnum E>
CLI::Option* AddChoice(CLI::App* command, const std::string& name, E& value,
                       const std::string& help) {
  std::string names;
  for (const auto& entry : core::kEnumNames<E>) {
    names += (names.empty() ? "" : "|") + std::string(entry.name);
  }
  const auto plain = [](std::string text) {
    std::erase(text, '-');
    return CLI::detail::to_lower(text);
  };
  const CLI::Validator by_name(
      [names, plain](std::string& text) -> std::string {
        for (const auto& entry : core::kEnumNames<E>) {
          if (plain(text) != plain(entry.name)) continue;
          text = std::to_string(static_cast<int>(entry.value));
          return {};
        }
        return "\"" + text + "\" is none of " + names;
      },
      "");
  return command->add_option(name, value, help)
      ->transform(by_name)
      ->type_name(names)
      ->default_str(core::ToString(value));
}

void AddJob(CLI::App& app, int* exit_code);
void AddTrain(CLI::App& app, int* exit_code);
void AddGenerate(CLI::App& app, int* exit_code);
void AddBench(CLI::App& app, int* exit_code);
void AddAnalyze(CLI::App& app, int* exit_code);
void AddPreflight(CLI::App& app, int* exit_code);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_
