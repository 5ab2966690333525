// Manual pages in roff's man macros, made of what a program tells CLI11 about itself.
#ifndef LOCKSTEP_BASE_MAN_MAN_PAGE_H_
#define LOCKSTEP_BASE_MAN_MAN_PAGE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace lockstep {

struct ManFacts {
  std::string version;               // "0.1.0"
  std::string date;                  // "2026-11-29"
  std::vector<std::string> also;     // names of related pages, all of section 1
  std::vector<std::string> aliases;  // other names of the program, for NAME
  bool takes_command_line = false;   // `-- COMMAND...` may follow the options
};

// "lockstep-run" for the command `run` of `lockstep`: the page's name in section 1.
std::string ManPageName(const CLI::App& app);

// The page of a program or of one of its commands. A line of the footer that begins with
// "Examples:" or "Exit codes:" begins a section; the rest of the footer is the section NOTES.
std::string ManPage(const CLI::App& app, const ManFacts& facts);

// The date of SOURCE_DATE_EPOCH, in seconds since 1970, else today's, in UTC.
std::string ManDate();

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_MAN_MAN_PAGE_H_
