#include "cli/commands/misread.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "core/plan/launcher.h"
#include "core/text/problem.h"

namespace lockstep::cli {
namespace {

// An option by which another launcher says what one of `lockstep run` does.
struct OthersOption {
  std::string_view names;  // with dashes for underscores, blanks around each
  std::string_view whose;
  std::string_view instead;  // of which a value follows; "": nothing
};
constexpr auto kOthersOptions = std::to_array<OthersOption>({
    {" nproc-per-node nproc ", "torchrun", "-p"},
    {" nnodes ", "torchrun", "-m"},
    {" num-gpus ", "deepspeed", "-p"},
    {" num-nodes ", "deepspeed", "-m"},
    {" num-machines ", "accelerate launch", "-m"},
    {" num-processes ", "accelerate launch", "-m and -p, machines and processes on each"},
    {" np n ", "mpirun", "-m and -p, machines and processes on each"},
    {" ntasks-per-node ", "srun", "-p"},
    {" nodes ", "srun", "-m"},
    {" node-rank master-addr master-port rdzv-endpoint rdzv-backend rdzv-id rdzv-conf standalone "
     "machine-rank main-process-ip main-process-port ",
     "another launcher", ""},
});

bool EndsAsJob(const std::string& word) {
  return word == "-" || word.ends_with(".yaml") || word.ends_with(".yml") ||
         word.ends_with(".json");
}

struct Place {
  const CLI::App* command = nullptr;
  size_t first = 0;  // of its own words
};

Place CommandAt(const CLI::App& app, const std::vector<std::string>& words) {
  Place place{&app, 0};
  while (place.first < words.size()) {
    const auto below = place.command->get_subcommands(
        [&](const CLI::App* each) { return each->check_name(words[place.first]); });
    if (below.empty()) break;
    place = {below.front(), place.first + 1};
  }
  return place;
}

// What CLI11 would make of the words: where the first is that is no option's, and the first option
// that there is not.
struct Words {
  std::optional<size_t> positional;
  std::optional<size_t> unknown;
};

Words Sort(const CLI::App& command, const std::vector<std::string>& words, size_t first) {
  Words sorted;
  for (size_t i = first; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-') || word == "-") {
      if (!sorted.positional) sorted.positional = i;
      continue;
    }
    const size_t equals = word.find('=');
    const bool is_long = word.starts_with("--");
    const CLI::Option* option =
        command.get_option_no_throw(is_long ? word.substr(0, equals) : word.substr(0, 2));
    if (option == nullptr || (!is_long && word.size() > 2 && option->get_expected_max() == 0)) {
      if (!sorted.unknown) sorted.unknown = i;
    } else if (option->get_expected_max() > 0 && equals == std::string::npos &&
               (is_long || word.size() == 2)) {
      ++i;
    }
  }
  return sorted;
}

std::string WithDashes(std::string_view option) {
  option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
  std::string name(option.substr(0, option.find('=')));
  std::ranges::replace(name, '_', '-');
  return name;
}

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// The value of words[index], if it is a number.
std::string NumberAt(const std::vector<std::string>& words, size_t index) {
  const size_t equals = words[index].find('=');
  std::string value = equals != std::string::npos ? words[index].substr(equals + 1)
                      : index + 1 < words.size()  ? words[index + 1]
                                                  : "";
  return IsNumber(value) ? value : "";
}

std::string OthersAdvice(const std::vector<std::string>& words, size_t index) {
  const std::string name = " " + WithDashes(words[index]) + " ";
  for (const auto& [names, whose, instead] : kOthersOptions) {
    if (names.find(name) == std::string_view::npos) continue;
    const std::string option = words[index].substr(0, words[index].find('='));
    std::string advice = option + " is an option of ";
    advice += whose;
    advice += "; ";
    if (instead.empty()) return advice + "leave it out: Lockstep connects the ranks itself";
    advice += "write ";
    advice += instead;
    const std::string number = NumberAt(words, index);
    if (instead.size() == 2 && !number.empty()) {
      advice += " ";
      advice += number;
    }
    return advice;
  }
  return "";
}

std::string NearestOption(const CLI::App& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  const std::string meant = WithDashes(word);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const bool same = std::ranges::find(known, meant) != known.end();
  return same ? meant : std::string(core::NearestName(meant, known));
}

}  // namespace

std::string RunsCommand(const std::vector<std::string>& words, size_t first) {
  std::vector<std::string> line = {"lockstep"};
  line.insert(line.end(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
  const bool sized = std::ranges::any_of(line, [](const std::string& word) {
    return word.starts_with("-p") || word.starts_with("-m") || word.starts_with("--processes") ||
           word.starts_with("--machines");
  });
  if (!sized) line.insert(line.end(), {"-p", "2"});
  line.emplace_back("--");
  const std::string& program = words[first];
  if (program.ends_with(".py")) line.emplace_back("python3");
  if (program.ends_with(".sh")) line.emplace_back("bash");
  line.insert(line.end(), words.begin() + static_cast<std::ptrdiff_t>(first), words.end());
  return core::ShellQuote(line);
}

std::string ProgramKind(const std::string& path, const std::string& first_bytes) {
  if (path.ends_with(".py")) return "a Python program";
  if (path.ends_with(".sh")) return "a shell script";
  return first_bytes.starts_with("#!") || first_bytes.starts_with(
                                              "\x7f"
                                              "ELF")
             ? "a program"
             : "";
}

std::string AdviceOnWords(const CLI::App& app, const std::vector<std::string>& words) {
  const auto [command, first] = CommandAt(app, words);
  if (command == &app) return "";
  const auto [positional, unknown] = Sort(*command, words, first);
  const bool is_run = command->get_name() == "run";
  const bool program_first =
      positional && (!unknown || *positional < *unknown) && !EndsAsJob(words[*positional]);
  if (is_run && program_first) {
    return "a command follows --: `" + RunsCommand(words, *positional) + "`";
  }
  if (!unknown) return "";
  const std::string& word = words[*unknown];
  if (is_run) {
    const std::string others = OthersAdvice(words, *unknown);
    if (!others.empty()) return "run: " + others;
  }
  const std::string nearest = NearestOption(*command, word);
  const std::string option = word.substr(0, word.find('='));
  const std::string name = command->get_name();
  return nearest.empty()
             ? name + ": there is no option " + option + "; `lockstep " + name +
                   " --help` lists them"
             : name + ": there is no option " + option + "; did you mean --" + nearest + "?";
}

}  // namespace lockstep::cli
