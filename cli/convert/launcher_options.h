// Options of launchers. A table knows every option and how many words follow it. An option that is
// in no table is an error, because the next word could be its value or the program.
#ifndef LOCKSTEP_CLI_CONVERT_LAUNCHER_OPTIONS_H_
#define LOCKSTEP_CLI_CONVERT_LAUNCHER_OPTIONS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/convert/job_builder.h"

namespace lockstep::convert {

struct Option {
  std::string name;   // the table's: without dashes before it, with dashes in it
  std::string value;  // empty for a flag
  std::string said;   // as it was written, with its dashes: --nproc for nproc-per-node
};

struct CommandLine {
  std::vector<Option> options;
  std::vector<std::string> program;  // the script and its arguments
};

// Whether `line` has an option of that name.
bool Has(const CommandLine& line, std::string_view name);

// In kGetopt and kArgparse a long option may be cut to what no other option begins with.
enum class Style : uint8_t {
  kGetopt,    // srun, sbatch: -N2, -N 2, --nodes=2, --nodes 2, --part gpu, -lu for -l -u
  kArgparse,  // torchrun, deepspeed, horovodrun: likewise, and -np 2
  kWhole,     // accelerate: as kArgparse, but options are never cut
  kWords,     // mpirun: -np 2, --map-by node, --hosts=a,b
};

inline constexpr std::string_view kUsed = "*";    // the converter itself reads the option
inline constexpr std::string_view kNothing = "";  // has no meaning here: dropped without a word

// KnownOption::values of one that has a value only where it is attached: -K1, --exclusive=user.
inline constexpr int kAttached = -1;

// Why options are dropped, where several launchers have them.
inline constexpr std::string_view kBinding =
    "each process is bound to the cores of its GPUs, or to its share of them (topology.bind).";
inline constexpr std::string_view kOutput =
    "the console has every rank's output, and files under logs.path.";

inline constexpr std::string_view kGiven = "Lockstep gives each machine its own at each start.";
inline constexpr std::string_view kBySelf = "the machines find each other by themselves.";
inline constexpr std::string_view kBothStreams =
    "both streams always go to the console, and to files under logs.path.";
inline constexpr std::string_view kAtOnce = "the end of a process is noticed at once.";
inline constexpr std::string_view kNotHere = "Lockstep has nothing like it.";

struct KnownOption {
  std::string_view names;   // without dashes, blanks between them; the first is Option::name
  int values;               // words that follow, 0 to 2, kAttached, or as in mpirun_options.h
  std::string_view remark;  // kUsed, kNothing, or the end of "--name value is not carried over: "
  bool sizes = false;       // may decide how many processes run: its remark is a warning
};

struct LauncherTable {
  std::string_view launcher;
  Style style;
  std::span<const KnownOption> options;
  std::span<const KnownOption> own{};  // further options, which come before the others
};

// The options that the converter reads, with the words of their values joined by blanks, and the
// program behind them. Everything else becomes a remark. Errors, at `position`: an option that is
// unknown or stands for several, a value that is missing.
CommandLine ReadLauncherOptions(const std::vector<std::string>& arguments,
                                const LauncherTable& table, Position position, JobBuilder& builder);

// The whole number, `least` or more, that an option says; an error where it says anything else.
std::optional<int64_t> CountOf(const Option& option, Position position, JobBuilder& builder,
                               int64_t least = 1);

// What a launcher runs in each process.
struct Runs {
  std::string python{};            // runs the script
  bool is_module = false;          // the script is a module's name
  bool no_python = false;          // the script is the program itself
  bool passes_local_rank = false;  // as the script's first argument
  bool by_torchrun = false;        // which replaces $$ and ${local_rank} in the words
};

// The program of `line` as the job's command; an error where the line names none.
void SetProgram(const CommandLine& line, const Runs& runs, JobBuilder& builder);

// --max-restarts, and a remark where it is not there.
void SetMaxRestarts(const Option& option, JobBuilder& builder);
void NoteDefaultRestarts(const CommandLine& line, const std::string& launcher, JobBuilder& builder);

CommandLine ReadTorchrunOptions(const std::vector<std::string>& arguments, JobBuilder& builder);

}  // namespace lockstep::convert

#endif  // LOCKSTEP_CLI_CONVERT_LAUNCHER_OPTIONS_H_
