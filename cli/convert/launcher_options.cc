#include "cli/convert/launcher_options.h"

#include <algorithm>

namespace lockstep::convert {
namespace {

// Whether `name` is one of the words of `names`.
bool HasWord(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t blank = std::min(names.find(' '), names.size());
    if (names.substr(0, blank) == name) return true;
    names.remove_prefix(std::min(blank + 1, names.size()));
  }
  return false;
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
  const KnownOption* Find(std::string_view name) const {
    std::string dashed(name);
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    const auto known =
        std::find_if(table_.options.begin(), table_.options.end(),
                     [&](const KnownOption& option) { return HasWord(option.names, dashed); });
    return known == table_.options.end() ? nullptr : &*known;
  }

  // False: nothing behind it can be understood.
  bool ReadOption(const std::string& word) {
    if (table_.style == Style::kLetters && word[1] != '-') return ReadLetters(word);
    const size_t equals = word.find('=');
    const std::string said = word.substr(0, equals);
    const KnownOption* known = Find(std::string_view(said).substr(said.starts_with("--") ? 2 : 1));
    if (known == nullptr) return Unknown(said);
    if (equals != std::string::npos) return Take(*known, word.substr(equals + 1));
    return TakeWords(*known, word);
  }

  // -N2, -N 2, -lu
  bool ReadLetters(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string letter(1, word[i]);
      const KnownOption* known = Find(letter);
      if (known == nullptr) return Unknown("-" + letter);
      if (known->values > 0 && i + 1 < word.size()) return Take(*known, word.substr(i + 1));
      if (!TakeWords(*known, "-" + letter)) return false;
    }
    return true;
  }

  bool TakeWords(const KnownOption& known, const std::string& said) {
    std::string value;
    for (int i = 0; i < known.values; ++i) {
      if (at_ == words_.size()) {
        builder_.Error(said, position_, "its value is missing: the command ends here");
        return false;
      }
      value += (i == 0 ? "" : " ") + words_[at_++];
    }
    return Take(known, value);
  }

  bool Take(const KnownOption& known, const std::string& value) {
    const std::string name(known.names.substr(0, known.names.find(' ')));
    if (known.remark == kUsed) {
      line_.options.push_back({.name = name, .value = value});
    } else if (known.remark != kNothing) {
      builder_.Remark(std::string(table_.launcher) + ": " + Dashed(name) +
                      (value.empty() ? "" : " " + value) +
                      " is not carried over: " + std::string(known.remark));
    }
    return true;
  }

  bool Unknown(const std::string& said) {
    std::vector<std::string_view> names;
    for (const KnownOption& option : table_.options) {
      names.push_back(option.names.substr(0, option.names.find(' ')));
    }
    const std::string near(
        core::NearestName(std::string_view(said).substr(said.starts_with("--") ? 2 : 1), names));
    builder_.Error(said, position_,
                   "is no option of " + std::string(table_.launcher) + " that is known here" +
                       (near.empty() ? "" : " (did you mean " + Dashed(near) + "?)") +
                       ", so nobody knows whether a value follows it; take it out");
    return false;
  }

  static std::string Dashed(const std::string& name) {
    return (name.size() == 1 ? "-" : "--") + name;
  }

  const std::vector<std::string>& words_;
  const LauncherTable& table_;
  const Position position_;
  JobBuilder& builder_;
  size_t at_ = 0;
  CommandLine line_;
};

}  // namespace

CommandLine ReadLauncherOptions(const std::vector<std::string>& arguments,
                                const LauncherTable& table, Position position,
                                JobBuilder& builder) {
  return Reader(arguments, table, position, builder).Read();
}

std::optional<int64_t> CountOf(const Option& option, Position position, JobBuilder& builder) {
  const std::optional<int64_t> count = ParseNumber<int64_t>(option.value);
  constexpr int64_t kMost = 1'000'000;
  if (count && *count >= 1 && *count <= kMost) return count;
  builder.Error(option.name, position,
                "\"" + option.value + "\" is no number, 1 or more; write what it stands for");
  return std::nullopt;
}

}  // namespace lockstep::convert
