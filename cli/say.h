// What Lockstep says of itself to who sits at the terminal.
#ifndef LOCKSTEP_CLI_SAY_H_
#define LOCKSTEP_CLI_SAY_H_

#include <string_view>

namespace lockstep::cli {

// "lockstep: MESSAGE" on standard error. The message may hold text that others wrote.
void Say(std::string_view message);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_SAY_H_
