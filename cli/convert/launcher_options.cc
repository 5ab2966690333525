#include "cli/convert/launcher_options.h"

#include <algorithm>

#include "cli/convert/script.h"
#include "core/plan/environment.h"
#include "core/plan/mpirun_options.h"

namespace lockstep::convert {
namespace {

// Calls `visit` with each of the words of `names`.
template <typename Visit>
void ForEachName(std::string_view names, Visit visit) {
  while (!names.empty()) {
    const size_t blank = std::min(names.find(' '), names.size());
    visit(names.substr(0, blank));
    names.remove_prefix(std::min(blank + 1, names.size()));
  }
}

std::string Dashed(std::string_view name) {
  return (name.size() == 1 ? "-" : "--") + std::string(name);
}

constexpr std::string_view kLocalRank = "$(LOCAL_RANK)";

// A word as torchrun hands it on, which works on it as Python's string.Template.safe_substitute.
std::string ByTorchrun(std::string_view word) {
  std::string written;
  std::string literal;
  for (size_t i = 0; i < word.size();) {
    const std::string_view rest = word.substr(i);
    const auto length = [&](std::string_view name) -> size_t {
      if (!rest.starts_with(name)) return 0;
      const bool ends =
          name.back() == '}' || rest.size() == name.size() || !IsNameCharacter(rest[name.size()]);
      return ends ? name.size() : 0;
    };
    const size_t reference = std::max(length("${local_rank}"), length("$local_rank"));
    if (rest.starts_with("$$")) {
      literal += '$';
      i += 2;
    } else if (reference > 0) {
      written += core::EscapeVariables(literal);
      if (literal.ends_with('$')) written += '$';
      written += kLocalRank;
      literal.clear();
      i += reference;
    } else {
      literal += word[i++];
    }
  }
  return written + core::EscapeVariables(literal);
}

class Reader {
 public:
  Reader(const std::vector<std::string>& arguments, const LauncherTable& table, Position position,
         JobBuilder& builder)
      : words_(arguments), table_(table), position_(position), builder_(builder) {}

  CommandLine Read() {
    while (at_ < words_.size()) {
      const std::string word = words_[at_];
      if (word.size() < 2 || word[0] != '-') break;
      ++at_;
      if (word == "--") break;
      if (!ReadOption(word)) return line_;
    }
    line_.program.assign(words_.begin() + static_cast<std::ptrdiff_t>(at_), words_.end());
    return line_;
  }

 private:
  struct Match {
    const KnownOption* option;
    std::string_view name;
  };

  // The option of that name; else, where they may be cut, those that begin so.
  std::vector<Match> Find(std::string_view name, bool may_be_cut) const {
    std::string dashed(name);
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    std::vector<Match> exact;
    std::vector<Match> begin;
    for (const auto& options : {table_.own, table_.options}) {
      for (const KnownOption& option : options) {
        ForEachName(option.names, [&](std::string_view known) {
          if (known == dashed && exact.empty()) exact.push_back({&option, known});
          if (known.size() > 1 && known.starts_with(dashed)) begin.push_back({&option, known});
        });
      }
    }
    return exact.empty() && may_be_cut ? begin : exact;
  }

  // False: nothing behind it can be understood.
  bool ReadOption(const std::string& word) {
    const bool is_long = word.starts_with("--");
    const size_t equals = word.find('=');
    const std::string said = word.substr(0, equals);
    const std::string_view name = std::string_view(said).substr(is_long ? 2 : 1);
    const bool letters = table_.style != Style::kWords && !is_long;
    if (letters && (table_.style == Style::kGetopt || Find(name, false).empty())) {
      return ReadLetters(word);
    }
    const bool may_be_cut =
        is_long && (table_.style == Style::kGetopt || table_.style == Style::kArgparse);
    const std::vector<Match> matches = Find(name, may_be_cut);
    if (matches.empty()) return Unknown(said);
    if (matches.size() > 1) return Ambiguous(said, matches);
    if (equals != std::string::npos) return Take(*matches[0].option, said, word.substr(equals + 1));
    return TakeWords(*matches[0].option, said);
  }

  // -N2, -N 2, -lu
  bool ReadLetters(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string letter = "-" + word.substr(i, 1);
      const std::vector<Match> known = Find(word.substr(i, 1), false);
      if (known.empty()) return Unknown(letter);
      const KnownOption& option = *known[0].option;
      if (option.values != 0 && i + 1 < word.size()) {
        return Take(option, letter, word.substr(i + 1));
      }
      if (!TakeWords(option, letter)) return false;
    }
    return true;
  }

  // argparse takes a word that looks like an option for no value.
  bool IsValue(const std::string& word) const {
    const bool argparse = table_.style == Style::kArgparse || table_.style == Style::kWhole;
    return !argparse || word.size() < 2 || word[0] != '-' || ParseNumber<int64_t>(word);
  }

  bool TakeWords(const KnownOption& known, const std::string& said) {
    const int values =
        core::WordsThatFollow(known.values, at_ < words_.size() ? words_[at_] : std::string_view());
    std::string value;
    for (int i = 0; i < values; ++i) {
      if (at_ == words_.size() || !IsValue(words_[at_])) {
        builder_.Error(said, position_,
                       at_ == words_.size() ? "its value is missing: the command ends here"
                                            : "its value is missing: " + words_[at_] + " follows");
        return false;
      }
      value += (i == 0 ? "" : " ") + words_[at_++];
    }
    return Take(known, said, value);
  }

  bool Take(const KnownOption& known, const std::string& said, const std::string& value) {
    if (known.remark == kUsed) {
      const std::string name(known.names.substr(0, known.names.find(' ')));
      line_.options.push_back({.name = name, .value = value, .said = said});
    } else if (known.remark != kNothing) {
      const std::string remark = std::string(table_.launcher) + ": " + said +
                                 (value.empty() ? "" : " " + value) +
                                 " is not carried over: " + std::string(known.remark);
      if (known.sizes) {
        builder_.Warn(remark);
      } else {
        builder_.Remark(remark);
      }
    }
    return true;
  }

  bool Ambiguous(const std::string& said, const std::vector<Match>& matches) {
    std::string names;
    for (const Match& match : matches) names += (names.empty() ? "" : ", ") + Dashed(match.name);
    builder_.Error(said, position_,
                   "is ambiguous: it may be any of " + names + "; write the full name");
    return false;
  }

  bool Unknown(const std::string& said) {
    std::vector<std::string_view> names;
    for (const auto& options : {table_.own, table_.options}) {
      for (const KnownOption& option : options) {
        ForEachName(option.names, [&](std::string_view name) { names.push_back(name); });
      }
    }
    const std::string_view name =
        core::NearestName(std::string_view(said).substr(said.starts_with("--") ? 2 : 1), names);
    builder_.Error(said, position_,
                   "is not a known option of " + std::string(table_.launcher) +
                       (name.empty() ? "" : " (did you mean " + Dashed(name) + "?)") +
                       ", so whether a value follows it is not known; take it out");
    return false;
  }

  const std::vector<std::string>& words_;
  const LauncherTable& table_;
  const Position position_;
  JobBuilder& builder_;
  size_t at_ = 0;
  CommandLine line_;
};

}  // namespace

bool Has(const CommandLine& line, std::string_view name) {
  return std::any_of(line.options.begin(), line.options.end(),
                     [&](const Option& option) { return option.name == name; });
}

CommandLine ReadLauncherOptions(const std::vector<std::string>& arguments,
                                const LauncherTable& table, Position position,
                                JobBuilder& builder) {
  return Reader(arguments, table, position, builder).Read();
}

std::optional<int64_t> CountOf(const Option& option, Position position, JobBuilder& builder,
                               int64_t least) {
  const std::optional<int64_t> count = ParseNumber<int64_t>(option.value);
  constexpr int64_t kMost = 1'000'000;
  if (count && *count >= least && *count <= kMost) return count;
  builder.Error(option.said, position,
                "\"" + option.value + "\" is not a number, " + std::to_string(least) +
                    " or more; write a number");
  return std::nullopt;
}

void SetProgram(const CommandLine& line, const Runs& runs, JobBuilder& builder) {
  if (line.program.empty()) {
    builder.Error("", {}, "the command names no script; write it after the launcher's options");
    return;
  }
  // Another launcher of the same name takes this number as the value of an option.
  if (ParseNumber<int64_t>(line.program[0])) {
    builder.Error(line.program[0], {},
                  "is in the place of the program, and may be the value of the option before it; "
                  "take both out");
    return;
  }
  std::vector<std::string> command;
  if (!runs.no_python) command.push_back(runs.python);
  if (runs.is_module && !runs.no_python) command.emplace_back("-m");
  command.insert(command.end(), line.program.begin(), line.program.end());
  builder.SetCommand(command);
  std::vector<std::string>& written = builder.job.spec.command;
  if (runs.by_torchrun) std::transform(command.begin(), command.end(), written.begin(), ByTorchrun);
  if (!runs.passes_local_rank) return;
  const auto arguments = static_cast<std::ptrdiff_t>(command.size() - line.program.size() + 1);
  written.insert(written.begin() + arguments, "--local_rank=" + std::string(kLocalRank));
}

}  // namespace lockstep::convert
