#include "core/plan/launcher.h"

#include <algorithm>
#include <array>
#include <span>

namespace lockstep::core {
namespace {

using Words = std::span<const std::string>;

constexpr std::array<std::string_view, 10> kLaunchers = {
    "torchrun",      "deepspeed", "mpirun",     "accelerate-launch", "mpiexec",
    "mpiexec.hydra", "orterun",   "horovodrun", "colossalai",        "srun"};

struct Module {
  std::string_view module;
  std::string_view launcher;
};
constexpr std::array<Module, 6> kModules = {{
    {"torch.distributed.run", "torchrun"},
    {"torch.distributed.launch", "torchrun"},
    {"accelerate.commands.launch", "accelerate launch"},
    {"accelerate.commands.accelerate_cli", "accelerate launch"},
    {"deepspeed.launcher.runner", "deepspeed"},
    {"horovod.runner", "horovodrun"},
}};

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool IsSeparator(const std::string& word) {
  return IsOneOf(word, {";", "|", "&", "&&", "||", "\n", "(", ")"});
}

bool IsAssignment(std::string_view word) {
  const size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 && word[0] != '-' &&
         word.substr(0, equals).find('/') == std::string_view::npos;
}

using Launchers = std::vector<LauncherCall>;

Launchers Call(std::string_view name, Words words) {
  return {{std::string(name), {words.begin(), words.end()}}};
}

// A launcher's own program, such as pip installs it.
Launchers OfProgram(Words words) {
  const std::string_view program = BaseName(words[0]);
  if (program == "accelerate") {
    return words.size() > 1 && words[1] == "launch" ? Call("accelerate launch", words)
                                                    : Launchers{};
  }
  // Short names, which other programs may have, of launchers of Python scripts.
  if (IsOneOf(program, {"ds", "composer"})) {
    const bool script =
        std::ranges::any_of(words, [](const std::string& word) { return word.ends_with(".py"); });
    return script ? Call(program == "ds" ? "deepspeed" : program, words) : Launchers{};
  }
  if (IsMpirun(program)) return Call(program, words);  // Debian's mpirun.openmpi, too
  const auto known = std::find(kLaunchers.begin(), kLaunchers.end(), program);
  return known == kLaunchers.end() ? Launchers{} : Call(*known, words);
}

Launchers OfPython(Words words) {
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "-m" && i + 1 < words.size()) {
      for (const Module& known : kModules) {
        if (known.module == words[i + 1]) return Call(known.launcher, words.subspan(i + 1));
      }
      return {};
    }
    // -X and -W take the next word as their value.
    if (word == "-X" || word == "-W") {
      ++i;
      continue;
    }
    if (!word.starts_with('-')) return OfProgram(words.subspan(i));
  }
  return {};
}

Launchers OfWords(Words words, int shells_left);

Launchers OfShell(Words words, int shells_left) {
  const auto script = std::find_if(words.begin() + 1, words.end(), [](const std::string& word) {
    return word.size() >= 2 && word[0] == '-' && word[1] != '-' && word.back() == 'c';
  });
  if (script == words.end() || script + 1 == words.end() || shells_left == 0) return {};
  const std::vector<std::string> inner = SplitShellWords(*(script + 1));
  Launchers launchers;
  auto start = inner.begin();
  while (start != inner.end()) {
    const auto end = std::find_if(start, inner.end(), IsSeparator);
    const Launchers more = OfWords(Words(start, end), shells_left - 1);
    launchers.insert(launchers.end(), more.begin(), more.end());
    start = end == inner.end() ? end : end + 1;
  }
  return launchers;
}

// The program behind a prefix, as in `timeout 1h mpirun`, `numactl -N 0 torchrun`, `uv run
// accelerate launch`: the first word that is neither an option nor a number. If an option precedes
// it, it may be the option's value, so the next such word is tried as well.
Launchers OfWrapper(Words words, int shells_left) {
  constexpr size_t kFarthest = 16;
  if (shells_left == 0) return {};
  for (size_t i = 1; i < std::min(words.size(), kFarthest); ++i) {
    const std::string& word = words[i];
    if (word.empty() || std::string_view("-0123456789").find(word[0]) != std::string_view::npos ||
        word == "run")
      continue;
    Launchers found = OfWords(words.subspan(i), shells_left - 1);
    if (!found.empty() || !words[i - 1].starts_with('-')) return found;
  }
  return {};
}

// The options of env, exec, nohup and time, and their values.
Words AfterOptions(Words words) {
  while (!words.empty() && words[0].starts_with('-')) {
    const bool has_value =
        IsOneOf(words[0], {"-u", "--unset", "-C", "--chdir", "-a", "-f", "--format", "-o",
                           "--output", "-S", "--split-string"});
    words = words.subspan(std::min<size_t>(has_value ? 2 : 1, words.size()));
  }
  return words;
}

// The text that `env -S` splits into words; empty without it.
std::vector<std::string> SplitByEnv(Words words) {
  for (size_t i = 0; i + 1 < words.size() && words[i].starts_with('-'); ++i) {
    if (!IsOneOf(words[i], {"-S", "--split-string"})) continue;
    std::vector<std::string> split = SplitShellWords(words[i + 1]);
    split.insert(split.end(), words.begin() + static_cast<std::ptrdiff_t>(i) + 2, words.end());
    return split;
  }
  return {};
}

Launchers OfWords(Words words, int shells_left) {
  // Programs that prepare the environment and then start the program.
  while (!words.empty()) {
    if (IsAssignment(words[0])) {
      words = words.subspan(1);
      continue;
    }
    if (!IsOneOf(BaseName(words[0]), {"env", "exec", "nohup", "time"})) break;
    words = words.subspan(1);
    if (const std::vector<std::string> split = SplitByEnv(words); !split.empty()) {
      return shells_left == 0 ? Launchers{} : OfWords(split, shells_left - 1);
    }
    words = AfterOptions(words);
  }
  if (words.empty()) return {};
  const std::string_view program = BaseName(words[0]);
  if (IsPython(program)) return OfPython(words);
  if (IsOneOf(program, {"sh", "bash", "dash", "ash", "zsh"})) return OfShell(words, shells_left);
  if (IsOneOf(program, {"timeout", "nice", "ionice", "numactl", "taskset", "stdbuf", "setsid",
                        "sudo", "uv", "poetry", "conda", "mamba", "micromamba", "pixi"})) {
    return OfWrapper(words, shells_left);
  }
  return OfProgram(words);
}

bool NeedsNoQuotes(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_./=:,@%+").find(c) != std::string_view::npos;
}

}  // namespace

std::vector<LauncherCall> LaunchersOf(const std::vector<std::string>& command) {
  constexpr int kShellsDeep = 3;
  return OfWords(Words(command), kShellsDeep);
}

std::string LauncherOf(const std::vector<std::string>& command) {
  const Launchers launchers = LaunchersOf(command);
  return launchers.empty() ? "" : launchers.front().name;
}

bool IsMpirun(std::string_view launcher) {
  return IsOneOf(launcher, {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"}) ||
         launcher.starts_with("mpirun.") || launcher.starts_with("mpiexec.");
}

std::string UnsupportedLauncherOf(const std::vector<std::string>& command, bool from_machine0) {
  for (const auto& [launcher, words] : LaunchersOf(command)) {
    if (from_machine0 ? !IsMpirun(launcher) : launcher != "torchrun") return launcher;
  }
  return {};
}

std::string InPlaceOf(const std::string& launcher) {
  const char* framework = launcher.starts_with("accelerate") ? " with framework: Accelerate"
                          : launcher == "horovodrun"         ? " with framework: Horovod"
                                                             : "";
  const std::string mpi = IsMpirun(launcher) ? "; a program that calls MPI keeps " + launcher +
                                                   ", under framework: Mpi with mpi.start: Launcher"
                                             : "";
  const std::string line = IsOneOf(launcher, {"colossalai", "composer"})
                               ? ""
                               : "; `lockstep convert -- " + launcher + " ...` writes it";
  return "write the program itself, without " + launcher +
         " and launch: PerMachine, as in [python, train.py]" + framework +
         ": Lockstep starts every rank of all machines, where " + launcher +
         " would run a separate training on each machine" + line + mpi;
}

std::vector<std::string_view> LauncherNames() {
  std::vector<std::string_view> names(kLaunchers.begin(), kLaunchers.end());
  for (const Module& known : kModules) names.push_back(known.module);
  return names;
}

std::string_view BaseName(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool IsPython(std::string_view program) {
  std::string_view name = BaseName(program);
  if (!name.starts_with("python")) return false;
  name.remove_prefix(6);
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
}

std::vector<std::string> SplitShellWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = '\0';
  const auto finish = [&] {
    if (in_word) words.push_back(std::move(word));
    word.clear();
    in_word = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == quote) {
        quote = '\0';
      } else if (c == '\\' && quote == '"' && i + 1 < text.size() &&
                 std::string_view("\"\\$`").find(text[i + 1]) != std::string_view::npos) {
        word += text[++i];
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == '\\' && i + 1 < text.size()) {
      ++i;
      if (text[i] != '\n') {
        word += text[i];
        in_word = true;
      }
    } else if (c == ' ' || c == '\t' || c == '\r') {
      finish();
    } else if (std::string_view(";|&\n()").find(c) != std::string_view::npos) {
      finish();
      words.emplace_back(1, c);
    } else {
      word += c;
      in_word = true;
    }
  }
  finish();
  return words;
}

std::string ShellQuote(const std::vector<std::string>& arguments) {
  std::string line;
  for (const std::string& argument : arguments) {
    if (!line.empty()) line += ' ';
    if (!argument.empty() && std::all_of(argument.begin(), argument.end(), NeedsNoQuotes)) {
      line += argument;
      continue;
    }
    line += '\'';
    for (const char c : argument) {
      if (c == '\'') {
        line += "'\\''";
      } else {
        line += c;
      }
    }
    line += '\'';
  }
  return line;
}

}  // namespace lockstep::core
