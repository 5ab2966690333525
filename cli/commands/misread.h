// What a command line that makes no sense was probably meant to be. Pure.
#ifndef LOCKSTEP_CLI_COMMANDS_MISREAD_H_
#define LOCKSTEP_CLI_COMMANDS_MISREAD_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::cli {

// What to write in place of `words`, of which CLI11 did not expect some: the nearest option,
// Lockstep's own for one of another launcher, or `--` before a command of `lockstep run`. "": no
// idea.
std::string AdviceOnWords(const CLI::App& app, const std::vector<std::string>& words);

// `lockstep run` with the program that stands at words[first] as its command: "lockstep run -p 2 --
// python3 train.py".
std::string RunsCommand(const std::vector<std::string>& words, size_t first);

// What a file that is no job is, by its name and its first bytes: "a Python program", "a shell
// script", "a program"; "" for anything else.
std::string ProgramKind(const std::string& path, const std::string& first_bytes);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_COMMANDS_MISREAD_H_
