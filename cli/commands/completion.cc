// Shell completion. The scripts ask `lockstep __complete` (cli/commands/complete.h), so they have
// no list of commands that could be out of date.
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands/commands.h"

namespace lockstep::cli {
namespace {

constexpr const char* kBash = R"(# bash completion for lockstep: source <(lockstep completion bash)
_lockstep() {
  local answer current=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]/#\~\//$HOME/}
  COMPREPLY=()
  mapfile -t answer < <("$program" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  ((${#answer[@]})) || return
  local paths=${answer[-1]}
  unset 'answer[-1]'
  COMPREPLY=("${answer[@]%%$'\t'*}")
  [[ $current != = ]] || current=
  if [[ $paths == :0 ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$current")
  elif [[ $paths == :16 ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "$current")
  fi
}
complete -F _lockstep lockstep
)";

constexpr const char* kZsh = R"(#compdef lockstep
# zsh completion for lockstep: source <(lockstep completion zsh)
_lockstep() {
  local program=${words[1]/#\~\//$HOME/} line paths
  local -a answer offered
  answer=("${(@f)$("$program" __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
  paths=${answer[-1]}
  answer[-1]=()
  for line in $answer; do
    offered+=("${${line%%$'\t'*}//:/\\:}:${${line#*$'\t'}/#${line%%$'\t'*}/}")
  done
  (( $#offered )) && _describe -V lockstep offered
  case $paths in
    :0) _files ;;
    :16) _files -/ ;;
  esac
}
if [[ ${funcstack[1]} == _lockstep ]]; then
  _lockstep "$@"
else
  compdef _lockstep lockstep
fi
)";

constexpr const char* kFish = R"(# fish completion for lockstep: lockstep completion fish | source
function __lockstep_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  set -l program $words[1]
  set -e words[1]
  set -l answer ($program __complete $words "$current" 2>/dev/null)
  set -l paths $answer[-1]
  set -e answer[-1]
  printf '%s\n' $answer
  switch "$paths"
    case :0
      __fish_complete_path (string replace -r '^--[^=]*=' '' -- "$current")
    case :16
      __fish_complete_directories (string replace -r '^--[^=]*=' '' -- "$current")
  end
end
complete -c lockstep -f -a '(__lockstep_complete)'
)";

// kubectl runs this program with the words behind `kubectl lockstep`.
constexpr const char* kKubectl = R"(#!/bin/sh
# Completion of `kubectl lockstep`: kubectl_complete-lockstep, in PATH.
exec kubectl-lockstep __complete "$@"
)";

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
  command->callback([shell, invocation] {
    if (*shell == "bash") std::cout << kBash;
    if (*shell == "zsh") std::cout << kZsh;
    if (*shell == "fish") std::cout << kFish;
    if (*shell == "kubectl") std::cout << kKubectl;
    invocation->exit_code = 0;
  });
}

}  // namespace lockstep::cli
