#include "core/failure/signals.h"

#include <csignal>

namespace lockstep::core {
namespace {

struct NamedSignal {
  std::string_view name;
  int number;
};

constexpr NamedSignal kSignals[] = {
    {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},       {"SIGQUIT", SIGQUIT}, {"SIGILL", SIGILL},
    {"SIGTRAP", SIGTRAP}, {"SIGABRT", SIGABRT},     {"SIGBUS", SIGBUS},   {"SIGFPE", SIGFPE},
    {"SIGKILL", SIGKILL}, {"SIGUSR1", SIGUSR1},     {"SIGSEGV", SIGSEGV}, {"SIGUSR2", SIGUSR2},
    {"SIGPIPE", SIGPIPE}, {"SIGALRM", SIGALRM},     {"SIGTERM", SIGTERM}, {"SIGXCPU", SIGXCPU},
    {"SIGXFSZ", SIGXFSZ}, {"SIGVTALRM", SIGVTALRM}, {"SIGPROF", SIGPROF}, {"SIGIO", SIGIO},
    {"SIGPWR", SIGPWR},   {"SIGSYS", SIGSYS},
};

}  // namespace

std::string SignalName(int signal) {
  for (const NamedSignal& entry : kSignals) {
    if (entry.number == signal) return std::string(entry.name);
  }
  return "SIG" + std::to_string(signal);
}

std::optional<int> ParseSignal(std::string_view name) {
  for (const NamedSignal& entry : kSignals) {
    if (entry.name == name) return entry.number;
  }
  return std::nullopt;
}

std::vector<std::string_view> SignalNameList() {
  std::vector<std::string_view> names;
  for (const NamedSignal& entry : kSignals) names.push_back(entry.name);
  return names;
}

}  // namespace lockstep::core
