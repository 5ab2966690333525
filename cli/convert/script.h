// Reads a shell script without running it: its simple commands in order, and what their words are
// as far as the script itself says so. For converters of batch scripts.
//
//   Script script = ReadScript(text);
//   Expander expander(variables);
//   for (const ScriptCommand& command : script.commands) expander.Expand(command.text);
#ifndef LOCKSTEP_CLI_CONVERT_SCRIPT_H_
#define LOCKSTEP_CLI_CONVERT_SCRIPT_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/shell_name.h"
#include "core/text/problem.h"

namespace lockstep::convert {

struct ScriptCommand {
  std::string text;  // as written, with its line ends
  int line = 0;      // where it begins, from 1
  int depth = 0;     // blocks around it: if, for, while, case, functions, braces, subshells
  bool after_pipe = false;
};

struct Script {
  std::vector<ScriptCommand> commands;   // keywords of blocks are left out
  std::optional<core::Problem> problem;  // a quote, block or here-document that never ends
};

Script ReadScript(std::string_view text);

struct ExpandedCommand {
  std::vector<std::string> words;    // without redirections
  std::vector<std::string> unknown;  // what has no value in the script: "$DATA", "$(hostname)"
  size_t assignments = 0;            // words at the front that are NAME=value
  bool redirected = false;
  bool reads_input = false;  // a file other than /dev/null, or a here-document

  // The first unknown that stands in `word`; empty when there is none.
  std::string UnknownIn(std::string_view word) const;
};

using ScriptVariables = std::map<std::string, std::string, std::less<>>;

// Replaces $NAME, ${NAME}, ${NAME:-value}, and $((arithmetic)); anything else that a shell would
// replace, as ~/data, *.tar or {1,2}, is kept as written, and told as unknown. Holds the variables
// of one script, in the order in which it sets them. The texts that it makes have a limit in all.
class Expander {
 public:
  explicit Expander(ScriptVariables variables) : variables_(std::move(variables)) {}

  // `unknown`: the parts of `value` that are.
  void Set(const std::string& name, std::string value, std::vector<std::string> unknown = {});
  // Makes it unknown.
  void Forget(const std::string& name) { variables_.erase(name); }
  // Null where nothing is known.
  const std::string* Find(std::string_view name) const;
  // What is unknown in its value; null where it has none.
  const std::vector<std::string>* UnknownOf(std::string_view name) const;
  // Whether all of its value is known.
  bool IsWhole(std::string_view name) const { return Find(name) && !UnknownOf(name); }

  ExpandedCommand Expand(std::string_view command);

 private:
  ScriptVariables variables_;
  std::map<std::string, std::vector<std::string>, std::less<>> unknown_;  // of variables_
  size_t budget_ = 4U << 20;  // bytes of values that may still be inserted
};

bool IsShellBlank(char c);

// Where the quote, ${...}, $(...), `...` or (...) that begins at `at` ends; npos where it doesn't,
// or holds others more than 50 deep.
size_t EndOfQuoted(std::string_view text, size_t at, int depth = 0);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_SCRIPT_H_
