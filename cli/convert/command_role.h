// What a command of a batch script is for, by the words that it begins with.
#ifndef LOCKSTEP_CLI_CONVERT_COMMAND_ROLE_H_
#define LOCKSTEP_CLI_CONVERT_COMMAND_ROLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::convert {

enum class Role : uint8_t {
  kTraining,   // a launcher
  kProgram,    // a program or a script, which may be the training
  kSurrounds,  // sets up what an image holds
  kQuiet,      // prints, waits or tests
  kOther,
};

// `words` holds one at least.
Role RoleOf(const std::vector<std::string>& words);

// Prints, waits or tests: echo, nvidia-smi, [.
bool IsQuiet(std::string_view program);
// sh, bash and their like.
bool IsShell(std::string_view program);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_COMMAND_ROLE_H_
