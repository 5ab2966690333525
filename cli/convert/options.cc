#include "cli/convert/options.h"

#include <algorithm>

namespace lockstep::convert {
namespace {

std::string Canonical(std::string_view word, const OptionNames& names) {
  const bool is_long = word.starts_with("--");
  std::string name(word.substr(is_long ? 2 : 1));
  if (!is_long) {
    for (const auto& [short_name, long_name] : names.short_names) {
      if (short_name == name) name = long_name;
    }
  }
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

}  // namespace

CommandLine ReadOptions(const std::vector<std::string>& arguments, const OptionNames& names) {
  CommandLine line;
  size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") {
      ++i;
      break;
    }
    if (word.size() < 2 || word[0] != '-') break;
    const size_t equals = word.find('=');
    Option option;
    option.name = Canonical(word.substr(0, equals), names);
    const bool is_flag =
        std::find(names.flags.begin(), names.flags.end(), option.name) != names.flags.end();
    if (equals != std::string::npos) {
      option.value = word.substr(equals + 1);
    } else if (!is_flag && i + 1 < arguments.size()) {
      option.value = arguments[++i];
    }
    line.options.push_back(std::move(option));
  }
  line.program.assign(
      arguments.begin() + static_cast<std::ptrdiff_t>(std::min(i, arguments.size())),
      arguments.end());
  return line;
}

std::vector<std::string> ProgramOf(const CommandLine& line, const std::string& python,
                                   bool is_module, bool no_python) {
  std::vector<std::string> program;
  if (line.program.empty()) return program;
  if (!no_python) program.push_back(python);
  if (is_module) program.emplace_back("-m");
  program.insert(program.end(), line.program.begin(), line.program.end());
  return program;
}

void SetProgram(const CommandLine& line, const std::string& python, bool is_module, bool no_python,
                JobBuilder& builder) {
  builder.job.spec.command = ProgramOf(line, python, is_module, no_python);
  if (builder.job.spec.command.empty()) {
    builder.Error("", {}, "the command names no script; write it behind the launcher's options");
  }
}

}  // namespace lockstep::convert
