#include "worker/agent/parked/python_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <string_view>
#include <utility>
#include <variant>

#include "base/text/ascii.h"
#include "base/unique_fd.h"

namespace lockstep::agent {
namespace {

// As much of a #! line as the kernel reads.
constexpr size_t kHead = 256;

std::string Head(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, kHead> head{};
  const ssize_t got = fd.valid() ? read(fd.get(), head.data(), head.size()) : 0;
  return {head.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Some are programs in Python: a parked interpreter of one would wait with nothing of what they
// start imports.
constexpr auto kLaunchers =
    std::to_array<std::string_view>({"conda", "hatch", "mamba", "micromamba", "nox", "pdm",
                                     "pipenv", "pixi", "poetry", "tox", "uv"});

// python, python3, python3.13t
bool IsPythonName(std::string_view name) {
  return name.starts_with("python") &&
         name.find_first_not_of("0123456789.t", 6) == std::string_view::npos;
}

std::string Variable(const SpawnRequest& request, const std::string& name) {
  for (const std::string& entry : request.env) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

Error CannotPark(const std::string& why) { return Error::Invalid(why); }

// Whether -X NAME or -c TEXT has its argument in the same word, or in the next.
bool HasArgument(std::string_view word, size_t at, size_t left) {
  return at + 1 < word.size() || left > 1;
}

// One word of options, "-uX". The number of words that it takes; 0: the program follows.
Result<size_t> TakeWord(const std::string& word, size_t left, std::vector<std::string>* options) {
  for (size_t i = 1; i < word.size(); ++i) {
    const char option = word[i];
    if (option == 'c' || option == 'm') {
      if (!HasArgument(word, i, left)) return CannotPark(word + " wants an argument");
      if (i > 1) options->push_back(word.substr(0, i));
      return size_t{0};
    }
    if (option == 'W' || option == 'X') {
      if (!HasArgument(word, i, left)) return CannotPark(word + " wants an argument");
      return i + 1 < word.size() ? size_t{1} : size_t{2};
    }
    if (std::string_view("IES").find(option) != std::string_view::npos) {
      return CannotPark(std::string("Python's option -") + option +
                        " keeps it from loading the parking hook");
    }
    if (std::string_view("bBdiOPqRsuvx").find(option) == std::string_view::npos) {
      return CannotPark("Python's option " + word + " is not known here");
    }
  }
  return size_t{1};
}

// Of the words behind the interpreter's name.
Result<std::vector<std::string>> OptionsOf(std::span<const std::string> words) {
  std::vector<std::string> options;
  while (!words.empty()) {
    const std::string& word = words.front();
    const bool ends = word == "--";
    if (ends) words = words.subspan(1);
    if (words.empty() || word == "-") break;
    if (ends || word.empty() || word.front() != '-') return options;
    if (word.starts_with("--") && word != "--check-hash-based-pycs") {
      return CannotPark("Python's option " + word + " is not known here");
    }
    Result<size_t> taken = size_t{2};
    if (!word.starts_with("--")) taken = TakeWord(word, words.size(), &options);
    if (!taken.ok()) return taken.error();
    if (*taken == 0) return options;
    if (*taken > words.size()) break;
    options.insert(options.end(), words.begin(), words.begin() + static_cast<ptrdiff_t>(*taken));
    words = words.subspan(*taken);
  }
  return CannotPark("the command gives Python no program");
}

// "#!/usr/bin/env -S python3 -u" as words; the kernel itself makes two of a line, at most.
std::vector<std::string> InterpreterOf(std::string_view head) {
  head = head.substr(2, head.find('\n') == std::string_view::npos ? 0 : head.find('\n') - 2);
  std::istringstream text{std::string(head)};
  std::vector<std::string> words;
  std::string first;
  if (!(text >> first)) return {};
  words.push_back(first);
  std::string rest;
  std::getline(text, rest);
  rest = Trim(rest);
  if (rest.empty()) return words;
  if (BaseName(first) != "env") {
    words.push_back(rest);
    return words;
  }
  words.clear();
  std::istringstream named(rest.starts_with("-S") ? rest.substr(2) : rest);
  for (std::string word; named >> word;) words.push_back(word);
  return words;
}

}  // namespace

Result<PythonCommand> FindPython(const SpawnRequest& request) {
  std::string path = request.path;
  if (path.front() != '/' && !request.working_directory.empty()) {
    path.insert(0, request.working_directory + "/");
  }
  if (std::ranges::find(kLaunchers, BaseName(path)) != kLaunchers.end()) {
    return CannotPark(BaseName(path) + " starts the program in a separate process");
  }
  std::vector<std::string> words = request.argv;
  std::string head = Head(path);
  if (head.starts_with("#!")) {
    std::vector<std::string> interpreter = InterpreterOf(head);
    if (interpreter.empty()) return CannotPark("the first line of " + path + " names no program");
    auto found =
        FindExecutable(interpreter.front(), Variable(request, "PATH"), request.working_directory);
    if (const auto* failure = std::get_if<SpawnFailure>(&found))
      return CannotPark(failure->message);
    words.front() = path;
    words.insert(words.begin(), interpreter.begin(), interpreter.end());
    path = std::get<std::string>(found);
    head = Head(path);
  }
  const bool python = IsPythonName(BaseName(path)) || IsPythonName(BaseName(words.front()));
  if (!python || !head.starts_with("\x7f"
                                   "ELF")) {
    return CannotPark(BaseName(words.front()) + " is not Python");
  }
  Result<std::vector<std::string>> options = OptionsOf(std::span(words).subspan(1));
  if (!options.ok()) return options.error();
  PythonCommand command{.path = std::move(path), .options = std::move(*options)};
  command.options.insert(command.options.begin(), words.front());
  return command;
}

}  // namespace lockstep::agent
