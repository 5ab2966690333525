// lockstep-bench: the benchmarks that need Lockstep's own parts. tools/bench runs them and those
// written in Python beside this file; docs/internals/benchmarks.md says what every line means.
#include <array>
#include <cstring>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include "bench/benchmarks.h"

namespace {

struct Benchmark {
  const char* name;
  const char* what;
  int (*run)(const std::vector<std::string>& arguments);
};

constexpr std::array kBenchmarks = {
    Benchmark{"decide", "one decision of the operator for a gang of up to 4,096 machines",
              lockstep::bench::RunDecide},
    Benchmark{"floor", "respawn and spawn with nothing but sockets, pidfds and exec",
              lockstep::bench::RunFloor},
    Benchmark{"fence", "a barrier of a thousand MPI processes", lockstep::bench::RunFence},
    Benchmark{"scale", "one coordinator and a thousand members", lockstep::bench::RunScale},
    Benchmark{"view", "what an open page of a gang of up to 4,096 machines costs a run",
              lockstep::bench::RunView},
};

int Help() {
  std::cout << "lockstep-bench NAME [ARGUMENT...]\nlockstep-bench --list\n\n";
  for (const Benchmark& benchmark : kBenchmarks) {
    std::cout << "  " << benchmark.name << "  " << benchmark.what << "\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") return Help();
  if (arguments[0] == "agents") return lockstep::bench::RunAgents(arguments);
  for (const Benchmark& benchmark : kBenchmarks) {
    if (arguments[0] == "--list") {
      std::cout << benchmark.name << "\n";
    } else if (arguments[0] == benchmark.name) {
      return benchmark.run({arguments.begin() + 1, arguments.end()});
    }
  }
  if (arguments[0] == "--list") return 0;
  std::cerr << "lockstep-bench: there is no benchmark '" << arguments[0] << "'; try --list\n";
  return 2;
}
