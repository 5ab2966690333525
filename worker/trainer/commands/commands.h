// The subcommands of `lockstep-trainer`: each adds itself to the parser, and sets the exit code.
#ifndef LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_
#define LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "worker/collectives/connect.h"

namespace lockstep::trainer {

inline const std::map<std::string, collectives::Algorithm> kAlgorithms = {
    {"tree", collectives::Algorithm::kTree}, {"ring", collectives::Algorithm::kRing}};

// An option whose values have names; its help shows them, and the one that stands by default.
template <typename T>
CLI::Option* AddChoice(CLI::App* command, const std::string& name, T& value,
                       const std::map<std::string, T>& choices, const std::string& help) {
  std::string names;
  std::string standard;
  for (const auto& [choice, meaning] : choices) {
    names += (names.empty() ? "" : "|") + choice;
    if (meaning == value) standard = choice;
  }
  const CLI::Validator by_name(
      [choices, names](std::string& text) -> std::string {
        const auto choice = choices.find(CLI::detail::to_lower(text));
        if (choice == choices.end()) return "\"" + text + "\" is none of " + names;
        text = std::to_string(static_cast<int>(choice->second));
        return {};
      },
      "");
  return command->add_option(name, value, help)
      ->transform(by_name)
      ->type_name(names)
      ->default_str(standard);
}

void AddTrain(CLI::App& app, int* exit_code);
void AddGenerate(CLI::App& app, int* exit_code);
void AddBench(CLI::App& app, int* exit_code);
void AddAnalyze(CLI::App& app, int* exit_code);

}  // namespace lockstep::trainer

#endif  // LOCKSTEP_WORKER_TRAINER_COMMANDS_COMMANDS_H_
