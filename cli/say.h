// What Lockstep says of itself to who sits at the terminal.
#ifndef LOCKSTEP_CLI_SAY_H_
#define LOCKSTEP_CLI_SAY_H_

#include <string>
#include <string_view>

namespace lockstep::cli {

// "lockstep: MESSAGE" on standard error. The message may hold text that others wrote.
void Say(std::string_view message);

// Writes a file that an option named, whole. True for no name; false, and said, when it can't be.
bool WriteOrSay(const std::string& path, std::string_view text);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SAY_H_
