#include "cli/commands/complete.h"

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <utility>

#include "base/text/enum_names.h"
#include "cli/commands/commands.h"
#include "core/model/spec.h"

namespace lockstep::cli {
namespace {

constexpr std::array<std::string_view, 4> kOfClusters = {"-n", "--namespace", "--context",
                                                         "--kubeconfig"};

constexpr std::array<std::string_view, 5> kFindsRunsHere = {"debug", "restart", "status", "logs",
                                                            "why"};

bool IsOfCluster(std::string_view word) {
  return std::ranges::find(kOfClusters, word.substr(0, word.find('='))) != kOfClusters.end();
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& app) {
  std::vector<const CLI::App*> commands;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!IsHidden(*each)) commands.push_back(each);
  }
  return commands;
}

std::string HeadOf(const std::string& text) { return text.substr(0, text.find('\n')); }

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// The option that a word names: "--bind", "-b" or "--bind=Node". Null if there is none.
const CLI::Option* OptionOf(const CLI::App& command, std::string_view word) {
  if (!word.starts_with('-')) return nullptr;
  const std::string name(word.substr(0, word.find('=')));
  for (const CLI::Option* each : command.get_options()) {
    if (!each->get_positional() && each->check_name(name)) return each;
  }
  return nullptr;
}

template <core::NamedEnum E>
std::vector<std::string> NamesOf() {
  std::vector<std::string> names;
  for (const auto& each : core::kEnumNames<E>) names.emplace_back(each.name);
  return names;
}

// Options whose values the job's model checks, and not CLI11.
std::vector<std::string> ChoicesOfModel(const CLI::Option& option) {
  static const std::map<std::string, std::vector<std::string>> kChoices = {
      {"framework", NamesOf<core::Framework>()}, {"launch", NamesOf<core::Launch>()},
      {"bind", NamesOf<core::Bind>()},           {"prestart", NamesOf<core::Prestart>()},
      {"console", NamesOf<core::Console>()},     {"resume", {"Auto", "Never"}}};
  if (option.get_lnames().empty()) return {};
  const auto found = kChoices.find(option.get_lnames().front());
  return found == kChoices.end() ? std::vector<std::string>() : found->second;
}

// "TEXT:{table,json}" names its choices.
std::vector<std::string> Choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  if (open == std::string::npos || !type.ends_with('}')) return ChoicesOfModel(option);
  std::vector<std::string> choices;
  std::istringstream words(type.substr(open + 1, type.size() - open - 2));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

Completion::Paths PathsOf(const CLI::Option& option) {
  const std::string name = option.get_positional() ? option.get_name(true) : option.get_type_name();
  if (name == "FILE" || name == "PROGRAM") return Completion::Paths::kFiles;
  return name == "FOLDER" ? Completion::Paths::kFolders : Completion::Paths::kNone;
}

// Every value of an option or positional, each behind `before`, which is "--bind=" or "".
Completion ValuesOf(const CLI::Option& option, const std::string& before, std::string_view begun) {
  Completion completion;
  completion.paths = PathsOf(option);
  std::string head = before;
  if (const char delimiter = option.get_delimiter(); delimiter != '\0') {
    const size_t end = begun.rfind(delimiter);
    if (end != std::string_view::npos) head += std::string(begun.substr(0, end + 1));
  }
  for (const std::string& choice : Choices(option)) {
    completion.candidates.push_back({head + choice, ""});
  }
  return completion;
}

Completion OptionNames(const CLI::App& command) {
  Completion completion;
  for (const CLI::Option* each : command.get_options()) {
    if (each->get_positional() || each->get_group().empty()) continue;
    const std::string description = HeadOf(each->get_description());
    for (const std::string& name : each->get_lnames()) {
      completion.candidates.push_back({"--" + name, description});
    }
    for (const std::string& name : each->get_snames()) {
      completion.candidates.push_back({"-" + name, description});
    }
  }
  return completion;
}

Completion CommandNames(const CLI::App& app) {
  Completion completion;
  for (const CLI::App* each : CommandsOf(app)) {
    completion.candidates.push_back({each->get_name(), HeadOf(each->get_description())});
  }
  return completion;
}

// The words behind a command, without the one that is to be completed.
struct Given {
  size_t positionals = 0;
  std::vector<std::string> of_cluster;
  const CLI::Option* waiting = nullptr;  // the last word is this option, and its value is missing
};

Given Read(const CLI::App& command, const std::vector<std::string>& words) {
  Given given;
  for (const std::string& word : words) {
    if (given.waiting != nullptr) {
      if (IsOfCluster(given.of_cluster.empty() ? "" : given.of_cluster.back()) &&
          given.waiting == OptionOf(command, given.of_cluster.back())) {
        given.of_cluster.push_back(word);
      }
      given.waiting = nullptr;
      continue;
    }
    const CLI::Option* option = OptionOf(command, word);
    if (option == nullptr) {
      given.positionals += word.starts_with('-') ? 0 : 1;
      continue;
    }
    if (IsOfCluster(word)) given.of_cluster.push_back(word);
    if (TakesValue(*option) && word.find('=') == std::string::npos) given.waiting = option;
  }
  return given;
}

// The positional at `index`; the last one may take any number of words.
const CLI::Option* PositionalAt(const CLI::App& command, size_t index) {
  const CLI::Option* last = nullptr;
  for (const CLI::Option* each : command.get_options()) {
    if (!each->get_positional() || each->get_group().empty()) continue;
    if (index == 0) return each;
    --index;
    last = each;
  }
  return last != nullptr && last->get_expected_max() > 1 ? last : nullptr;
}

Completion CompleteIn(const CLI::App& command, std::vector<std::string> words,
                      const std::vector<std::string>& of_cluster, const JobNames& runs_here,
                      const JobNames& jobs_of_cluster) {
  const std::string current = std::move(words.back());
  words.pop_back();
  Given given = Read(command, words);
  if (given.waiting != nullptr) return ValuesOf(*given.waiting, "", current);
  if (current.starts_with('-')) {
    const size_t equals = current.find('=');
    const CLI::Option* option = OptionOf(command, current);
    if (equals == std::string::npos || option == nullptr) return OptionNames(command);
    return ValuesOf(*option, current.substr(0, equals + 1), current.substr(equals + 1));
  }
  Completion completion;
  const CLI::Option* positional = PositionalAt(command, given.positionals);
  if (positional != nullptr) completion = ValuesOf(*positional, "", current);
  if (positional != nullptr && positional->get_name(true) == "NAME") {
    given.of_cluster.insert(given.of_cluster.begin(), of_cluster.begin(), of_cluster.end());
    std::vector<std::string> names;
    // These look on this computer unless an option names a cluster.
    const bool here = std::ranges::find(kFindsRunsHere, command.get_name()) != kFindsRunsHere.end();
    if (here && given.of_cluster.empty()) names = runs_here({});
    for (const std::string& name : jobs_of_cluster(given.of_cluster)) names.push_back(name);
    std::ranges::sort(names);
    names.erase(std::ranges::unique(names).begin(), names.end());
    for (const std::string& name : names) completion.candidates.push_back({name, ""});
  }
  if (std::ranges::find(kTakesCommandLine, command.get_name()) != kTakesCommandLine.end()) {
    completion.candidates.push_back({"--", "The command to run follows"});
  }
  return completion;
}

Completion CompleteAll(const CLI::App& app, const std::vector<std::string>& words,
                       const JobNames& runs_here, const JobNames& jobs_of_cluster) {
  if (std::find(words.begin(), words.end() - 1, "--") != words.end() - 1) {
    return {{}, Completion::Paths::kFiles};  // a command line of the user's own
  }
  size_t at = OptionsBeforeCommand(words);
  if (at >= words.size()) return {};  // the value of an option that stands before the command
  const std::vector<std::string> of_cluster(words.begin(),
                                            words.begin() + static_cast<std::ptrdiff_t>(at));
  const bool help = words[at] == "help" && at + 1 < words.size();
  if (help) ++at;
  if (at + 1 == words.size()) {
    return words[at].starts_with('-') ? OptionNames(app) : CommandNames(app);
  }
  if (help) return {};
  for (const CLI::App* command : CommandsOf(app)) {
    if (!command->check_name(words[at])) continue;
    return CompleteIn(*command, {words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end()},
                      of_cluster, runs_here, jobs_of_cluster);
  }
  return {};
}

}  // namespace

size_t OptionsBeforeCommand(const std::vector<std::string>& words) {
  size_t count = 0;
  while (count < words.size() && IsOfCluster(words[count])) {
    count += words[count].find('=') == std::string::npos ? 2 : 1;
  }
  return count;
}

Completion Complete(const CLI::App& app, const std::vector<std::string>& words,
                    const JobNames& runs_here, const JobNames& jobs_of_cluster) {
  if (words.empty()) return CommandNames(app);
  // bash has --bind=No as three words, and --bind= as two. Of these it replaces the last.
  std::vector<std::string> joined = words;
  const size_t count = joined.size();
  if (count >= 3 && joined[count - 2] == "=" && joined[count - 3].starts_with("--")) {
    joined.erase(joined.end() - 2);
  } else if (count >= 2 && joined[count - 1] == "=" && joined[count - 2].starts_with("--")) {
    joined.back().clear();
  }
  const std::string& current = joined.back();
  Completion completion = CompleteAll(app, joined, runs_here, jobs_of_cluster);
  std::erase_if(completion.candidates,
                [&](const Candidate& each) { return !each.word.starts_with(current); });
  return completion;
}

std::string ToText(const Completion& completion) {
  std::string text;
  for (const Candidate& each : completion.candidates) {
    text += each.word + (each.description.empty() ? "" : "\t" + each.description) + "\n";
  }
  switch (completion.paths) {
    case Completion::Paths::kNone:
      return text + ":4\n";
    case Completion::Paths::kFiles:
      return text + ":0\n";
    case Completion::Paths::kFolders:
      return text + ":16\n";
  }
  return text;
}

}  // namespace lockstep::cli
