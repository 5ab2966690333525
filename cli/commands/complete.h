// What may stand at a place of a command line: the answer behind every shell's completion. Pure,
// but for the two functions that name jobs.
#ifndef LOCKSTEP_CLI_COMMANDS_COMPLETE_H_
#define LOCKSTEP_CLI_COMMANDS_COMPLETE_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cli {

// `lockstep __complete WORD...` prints the answer. The scripts of `lockstep completion` call it.
inline constexpr std::string_view kCompleteCommand = "__complete";

struct Candidate {
  std::string word;
  std::string description;  // "" or one line
};

struct Completion {
  // What a shell offers besides: nothing, names of files, names of folders.
  enum class Paths { kNone, kFiles, kFolders };

  std::vector<Candidate> candidates;
  Paths paths = Paths::kNone;
};

// Names of jobs. The options --namespace, --context and --kubeconfig of the command line come in.
using JobNames = std::function<std::vector<std::string>(const std::vector<std::string>& options)>;

// `words` are all behind the program's name. The last one, perhaps "", is to be completed. bash
// splits --bind=Node into three words, which mean the same as one.
Completion Complete(const CLI::App& app, const std::vector<std::string>& words,
                    const JobNames& runs_here, const JobNames& jobs_of_cluster);

// A line for each candidate, WORD or WORD<tab>DESCRIPTION. The last line names what else fits:
// ":4" nothing, ":0" files, ":16" folders. kubectl expects the same lines of a plugin.
std::string ToText(const Completion& completion);

// How many words before the command are options of the cluster and their values.
size_t OptionsBeforeCommand(const std::vector<std::string>& words);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_COMPLETE_H_
