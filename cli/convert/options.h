// Options of a launcher's command line, as Python's argparse reads them: --name value,
// --name=value, dashes and underscores alike, up to the first word that is neither an option nor
// its value.
#ifndef LOCKSTEP_CLI_CONVERT_OPTIONS_H_
#define LOCKSTEP_CLI_CONVERT_OPTIONS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/convert/job_builder.h"

namespace lockstep::convert {

struct Option {
  std::string name;   // without dashes before it, with underscores in it: nproc_per_node
  std::string value;  // empty for a flag
};

struct CommandLine {
  std::vector<Option> options;
  std::vector<std::string> program;  // the script and its arguments
};

// `flags` take no value; every other option does. `short_names`: {"m", "module"} for -m.
struct OptionNames {
  std::span<const std::string_view> flags;
  std::span<const std::pair<std::string_view, std::string_view>> short_names;
};

CommandLine ReadOptions(const std::vector<std::string>& arguments, const OptionNames& names);

// What a launcher runs in each process: a script by Python, a module, or the program itself.
std::vector<std::string> ProgramOf(const CommandLine& line, const std::string& python,
                                   bool is_module, bool no_python);

// That, as the job's command; an error where the line names no program.
void SetProgram(const CommandLine& line, const std::string& python, bool is_module, bool no_python,
                JobBuilder& builder);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_OPTIONS_H_
