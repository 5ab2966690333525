// accelerate's settings by name: the option of `accelerate launch`, the key in a section of its
// configuration, and the variable that it becomes. Names follow no rule.
#ifndef LOCKSTEP_CLI_CONVERT_ACCELERATE_KEYS_H_
#define LOCKSTEP_CLI_CONVERT_ACCELERATE_KEYS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cli/convert/launcher_options.h"

namespace lockstep::convert {

enum class AccelerateSection : uint8_t {
  kDynamo,
  kDeepSpeed,
  kFsdp,
  kMegatron,
  kParallelism,
  kFp8,
};

struct AccelerateKey {
  AccelerateSection section;
  std::string_view option;         // fsdp-version for --fsdp_version and `fsdp_version:`
  std::string_view variable;       // empty: there is none
  std::string_view standard = "";  // what the launcher sets where nothing is said; empty: nothing
  bool is_flag = false;            // the option takes no value
};

// As the configuration calls it: fsdp_config.
std::string SectionName(AccelerateSection section);

std::span<const AccelerateKey> AccelerateKeys();
// The same as options of a command line.
std::span<const KnownOption> AccelerateKeyOptions();
// By its option, with dashes or underscores; null where there is none.
const AccelerateKey* FindAccelerateKey(std::string_view name);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_ACCELERATE_KEYS_H_
