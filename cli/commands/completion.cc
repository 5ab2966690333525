// Shell completion, generated from the program's own options, so it is always complete.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/text/enum_names.h"
#include "cli/commands/commands.h"
#include "core/model/spec.h"

namespace lockstep::cli {
namespace {

struct Command {
  std::string name;
  std::string description;
  std::vector<const CLI::Option*> options;
  bool takes_job;  // by its name, on a cluster
};

// Prints the names of the jobs that the current context sees.
constexpr const char* kJobNames = "lockstep list 2>/dev/null | tail -n +2 | cut -d \\  -f 1";

std::vector<Command> CommandsOf(const CLI::App& app) {
  std::vector<Command> commands;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    Command command{
        sub->get_name(), sub->get_description(), {}, sub->get_option_no_throw("NAME") != nullptr};
    for (const CLI::Option* option : sub->get_options()) {
      if (!option->get_lnames().empty()) command.options.push_back(option);
    }
    commands.push_back(std::move(command));
  }
  return commands;
}

// " status logs ".
std::string TakersOfJobs(const std::vector<Command>& commands) {
  std::string names = " ";
  for (const Command& command : commands) {
    if (command.takes_job) names += command.name + " ";
  }
  return names;
}

std::string FlagsOf(const Command& command) {
  std::string flags;
  for (const CLI::Option* option : command.options) {
    for (const std::string& name : option->get_snames()) flags += "-" + name + " ";
    for (const std::string& name : option->get_lnames()) flags += "--" + name + " ";
  }
  if (!flags.empty()) flags.pop_back();
  return flags;
}

template <core::NamedEnum E>
std::string NamesOf() {
  std::string names;
  for (const auto& each : core::kEnumNames<E>)
    names += (names.empty() ? "" : " ") + std::string(each.name);
  return names;
}

// What may stand behind an option, as words between blanks; empty where that is no choice.
std::string ValuesOf(const CLI::Option* option) {
  static const std::map<std::string, std::string> kOfJobs = {
      {"framework", NamesOf<core::Framework>()},
      {"launch", NamesOf<core::Launch>()},
      {"bind", NamesOf<core::Bind>()},
      {"prestart", NamesOf<core::Prestart>()},
      {"console", NamesOf<core::Console>()}};
  const auto found = kOfJobs.find(option->get_lnames().front());
  if (found != kOfJobs.end()) return found->second;
  const std::string type = option->get_type_name();  // TEXT:{table,json}
  const size_t open = type.find('{');
  if (open == std::string::npos || !type.ends_with('}')) return {};
  std::string values = type.substr(open + 1, type.size() - open - 2);
  std::ranges::replace(values, ',', ' ');
  return values;
}

// A line of a shell's `case` for each option with a choice.
void PrintChoices(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    for (const CLI::Option* option : command.options) {
      const std::string values = ValuesOf(option);
      if (values.empty()) continue;
      std::cout << "    ";
      for (const std::string& name : option->get_snames()) {
        std::cout << command.name << ":-" << name << "|";
      }
      std::cout << command.name << ":--" << option->get_lnames().front() << ") values='" << values
                << "' ;;\n";
    }
  }
}

// For text between single quotes of a shell.
std::string Quotable(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n') break;
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out;
}

void PrintBash(const std::vector<Command>& commands) {
  std::string names;
  for (const Command& command : commands) names += command.name + " ";
  std::cout << "# bash completion for lockstep: source <(lockstep completion bash)\n"
               "_lockstep() {\n"
               "  local current=${COMP_WORDS[COMP_CWORD]} i\n"
               "  COMPREPLY=()\n"
               "  if [[ $COMP_CWORD -eq 1 ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W '"
            << names
            << "--help --version' -- \"$current\")\n"
               "    return\n"
               "  fi\n"
               "  for ((i = 2; i < COMP_CWORD; i++)); do\n"
               "    if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
               "      mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
               "      return\n"
               "    fi\n"
               "  done\n"
               "  local flags= values=\n"
               "  case ${COMP_WORDS[1]}:${COMP_WORDS[COMP_CWORD - 1]} in\n";
  PrintChoices(commands);
  std::cout << "  esac\n"
               "  if [[ $values ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"$values\" -- \"$current\")\n"
               "    return\n"
               "  fi\n"
               "  case ${COMP_WORDS[1]} in\n";
  for (const Command& command : commands) {
    std::cout << "    " << command.name << ") flags='" << FlagsOf(command) << "' ;;\n";
  }
  std::cout << "  esac\n"
               "  if [[ ${COMP_WORDS[1]} == completion && $current != -* ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish kubectl' -- \"$current\")\n"
               "  elif [[ ${COMP_WORDS[1]} == bench && $current != -* ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W numa -- \"$current\")\n"
               "  elif [[ $current == -* ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$current\")\n"
               "  elif [[ '"
            << TakersOfJobs(commands)
            << "' == *\" ${COMP_WORDS[1]} \"* ]]; then\n"
               "    mapfile -t COMPREPLY < <(compgen -W \"$("
            << kJobNames
            << ")\" -- \"$current\")\n"
               "  else\n"
               "    mapfile -t COMPREPLY < <(compgen -f -- \"$current\")\n"
               "  fi\n"
               "}\n"
               "complete -o filenames -F _lockstep lockstep\n";
}

void PrintZsh(const std::vector<Command>& commands) {
  std::cout << "#compdef lockstep\n"
               "# zsh completion for lockstep: source <(lockstep completion zsh)\n"
               "_lockstep() {\n"
               "  if (( CURRENT == 2 )); then\n"
               "    local -a commands=(\n";
  for (const Command& command : commands) {
    std::cout << "      '" << command.name << ":" << Quotable(command.description) << "'\n";
  }
  std::cout << "    )\n"
               "    _describe command commands\n"
               "    return\n"
               "  fi\n"
               "  local -a flags\n"
               "  local values=\n"
               "  case ${words[2]}:${words[CURRENT - 1]} in\n";
  PrintChoices(commands);
  std::cout << "  esac\n"
               "  if [[ -n $values ]]; then\n"
               "    compadd -- ${=values}\n"
               "    return\n"
               "  fi\n"
               "  case ${words[2]} in\n";
  for (const Command& command : commands) {
    std::cout << "    " << command.name << ") flags=(" << FlagsOf(command) << ") ;;\n";
  }
  std::cout << "  esac\n"
               "  if [[ ${words[2]} == completion && $PREFIX != -* ]]; then\n"
               "    compadd bash zsh fish kubectl\n"
               "  elif [[ ${words[2]} == bench && $PREFIX != -* ]]; then\n"
               "    compadd numa\n"
               "  elif [[ $PREFIX == -* ]]; then\n"
               "    compadd -- $flags\n"
               "  elif [[ '"
            << TakersOfJobs(commands)
            << "' == *\" ${words[2]} \"* ]]; then\n"
               "    compadd -- ${(f)\"$("
            << kJobNames
            << ")\"}\n"
               "  else\n"
               "    _files\n"
               "  fi\n"
               "}\n"
               "compdef _lockstep lockstep\n";
}

void PrintFish(const std::vector<Command>& commands) {
  std::cout << "# fish completion for lockstep: lockstep completion fish | source\n";
  for (const Command& command : commands) {
    std::cout << "complete -c lockstep -n __fish_use_subcommand -f -a " << command.name << " -d '"
              << Quotable(command.description) << "'\n";
    if (command.takes_job) {
      std::cout << "complete -c lockstep -n '__fish_seen_subcommand_from " << command.name
                << "' -f -a '(" << kJobNames << ")'\n";
    }
    for (const CLI::Option* option : command.options) {
      std::cout << "complete -c lockstep -n '__fish_seen_subcommand_from " << command.name << "'";
      for (const std::string& name : option->get_snames()) std::cout << " -s " << name;
      for (const std::string& name : option->get_lnames()) std::cout << " -l " << name;
      const std::string values = ValuesOf(option);
      if (!values.empty()) {
        std::cout << " -x -a '" << values << "'";
      } else if (option->get_items_expected_max() > 0) {
        std::cout << " -r";
      }
      std::cout << " -d '" << Quotable(option->get_description()) << "'\n";
    }
  }
  std::cout << "complete -c lockstep -n '__fish_seen_subcommand_from completion' -f -a "
               "'bash zsh fish kubectl'\n"
               "complete -c lockstep -n '__fish_seen_subcommand_from bench' -f -a numa\n";
}

// A program that kubectl calls with the words behind `kubectl lockstep`. The last line of what it
// prints says that files are no answer.
void PrintKubectl(const std::vector<Command>& commands) {
  std::cout << "#!/usr/bin/env bash\n"
               "# Completion of `kubectl lockstep`: kubectl_complete-lockstep, in PATH.\n"
               "lockstep() { kubectl-lockstep \"$@\"; }\n";
  PrintBash(commands);
  std::cout << "COMP_WORDS=(lockstep \"$@\")\n"
               "COMP_CWORD=$#\n"
               "_lockstep\n"
               "printf '%s\\n' \"${COMPREPLY[@]}\" :4\n";
}

}  // namespace

void AddCompletion(CLI::App& app, Invocation* invocation) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print completion for a shell");
  command->add_option("SHELL", *shell, "bash, zsh, fish or kubectl")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish", "kubectl"}));
  command->footer(
      "Examples:\n"
      "  source <(lockstep completion bash)\n"
      "  lockstep completion fish > ~/.config/fish/completions/lockstep.fish\n"
      "  lockstep completion kubectl > ~/bin/kubectl_complete-lockstep; chmod +x "
      "~/bin/kubectl_complete-lockstep");
  command->callback([&app, shell, invocation] {
    std::vector<Command> commands = CommandsOf(app);
    if (*shell == "bash") PrintBash(commands);
    if (*shell == "zsh") PrintZsh(commands);
    if (*shell == "fish") PrintFish(commands);
    if (*shell == "kubectl") PrintKubectl(commands);
    invocation->exit_code = 0;
  });
}

}  // namespace lockstep::cli
