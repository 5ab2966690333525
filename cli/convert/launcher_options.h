// Options of launchers that don't read them as argparse does. A table knows every option and how
// many words follow it; an option that is in no table is an error, for what follows it could be
// its value or the program.
#ifndef LOCKSTEP_CLI_CONVERT_LAUNCHER_OPTIONS_H_
#define LOCKSTEP_CLI_CONVERT_LAUNCHER_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/convert/job_builder.h"
#include "cli/convert/options.h"

namespace lockstep::convert {

enum class Style : uint8_t {
  kLetters,  // srun, sbatch: -N2, -N 2, --nodes=2, --nodes 2, -lu for -l -u
  kWords,    // mpirun, horovodrun, deepspeed: -np 2, --map-by node, --hosts=a,b
};

inline constexpr std::string_view kUsed = "*";    // the converter itself reads the option
inline constexpr std::string_view kNothing = "";  // has no meaning here: dropped without a word

// Why options are dropped, where several launchers have them.
inline constexpr std::string_view kBinding =
    "each process is bound to the cores of its GPUs, or to its share of them (topology.bind).";
inline constexpr std::string_view kOutput =
    "the console has every rank's output, and files under logs.path.";

struct KnownOption {
  std::string_view names;   // without dashes, blanks between them; the first is Option::name
  int values;               // words that follow, 0 to 2
  std::string_view remark;  // kUsed, kNothing, or the end of "--name value is not carried over: "
};

struct LauncherTable {
  std::string_view launcher;
  Style style;
  std::span<const KnownOption> options;
};

// The options that the converter reads, with the words of their values joined by blanks, and the
// program behind them. Everything else becomes a remark. Errors, at `position`: an unknown option,
// a value that is missing.
CommandLine ReadLauncherOptions(const std::vector<std::string>& arguments,
                                const LauncherTable& table, Position position, JobBuilder& builder);

// The whole number, 1 or more, that an option says; an error where it says anything else.
std::optional<int64_t> CountOf(const Option& option, Position position, JobBuilder& builder);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_LAUNCHER_OPTIONS_H_
