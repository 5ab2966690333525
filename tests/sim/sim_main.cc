// lockstep-sim: runs schedules of the simulator, and shows, replays and shrinks those that fail.
#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/sim/schedule.h"
#include "tests/sim/world.h"

namespace lockstep::sim {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct Options {
  uint64_t first = 1;
  uint64_t last = 100'000;
  double minutes = 0;
  unsigned threads = 2;
  unsigned most_failures = 5;
  std::string mutant;
  std::string file;
  int64_t replay = -1;
  bool trace = false;
  bool cluster = false;
  bool shrink = false;
};

double Since(SteadyClock::time_point begin) {
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

int Show(Schedule schedule, const Options& options) {
  if (options.shrink) schedule = Shrink(schedule);
  std::cout << Format(schedule);
  Outcome outcome = RunSchedule(schedule, options.trace ? &std::cout : nullptr);
  std::cout << (outcome.violation
                    ? "violates " + outcome.violation->invariant + ": " + outcome.violation->detail
                    : std::string("holds"))
            << "\n";
  return outcome.violation ? 1 : 0;
}

struct Sweep {
  std::atomic<uint64_t> next;
  std::atomic<uint64_t> run = 0;
  std::atomic<uint64_t> events = 0;
  std::atomic<uint64_t> successes = 0;
  std::atomic<uint64_t> faults = 0;
  std::atomic<unsigned> failures = 0;
  std::mutex printing;
};

void Work(const Options& options, SteadyClock::time_point begin, Sweep& sweep) {
  while (sweep.failures < options.most_failures) {
    uint64_t seed = sweep.next++;
    if (options.minutes > 0 ? Since(begin) > options.minutes * 60 : seed > options.last) return;
    Schedule schedule = DrawSchedule(seed, options.mutant, options.cluster);
    Outcome outcome = RunSchedule(schedule);
    ++sweep.run;
    sweep.events += outcome.events;
    sweep.faults += outcome.faults;
    if (outcome.success) ++sweep.successes;
    if (!outcome.violation) continue;
    ++sweep.failures;
    std::lock_guard lock(sweep.printing);
    std::cout << "seed " << seed << " violates " << outcome.violation->invariant << ": "
              << outcome.violation->detail << " (after " << Since(begin) << " s)" << std::endl;
  }
}

int RunSeeds(const Options& options) {
  SteadyClock::time_point begin = SteadyClock::now();
  Sweep sweep;
  sweep.next = options.first;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < options.threads; ++i) {
    threads.emplace_back([&] { Work(options, begin, sweep); });
  }
  for (std::thread& thread : threads) thread.join();
  double seconds = Since(begin);
  auto run = static_cast<double>(sweep.run);
  std::cout << sweep.run << " schedules, " << static_cast<uint64_t>(run / seconds * 60)
            << " a minute, " << static_cast<uint64_t>(static_cast<double>(sweep.events) / run)
            << " events and " << static_cast<double>(sweep.faults) / run << " faults each, "
            << sweep.successes << " jobs succeeded, " << sweep.failures << " violations\n";
  return sweep.failures > 0 ? 1 : 0;
}

int Main(int argc, char** argv) {
  Options options;
  std::string seeds = "1..100000";
  CLI::App app("Runs schedules of faults against the gang's state machines, in virtual time.",
               "lockstep-sim");
  app.add_option("--seeds", seeds, "A..B; the seeds to run")->capture_default_str();
  app.add_option("--minutes", options.minutes, "run for so long instead, from A on");
  app.add_option("--mutant", options.mutant, "a rule that is switched off");
  app.add_option("--replay", options.replay, "run this seed alone");
  app.add_option("--case", options.file, "run the schedule in this file");
  app.add_option("--threads", options.threads, "schedules at a time")->capture_default_str();
  app.add_option("--failures", options.most_failures, "stop after so many")->capture_default_str();
  app.add_flag("--cluster", options.cluster, "under the operator of a cluster, not `lockstep run`");
  app.add_flag("--trace", options.trace, "print every event");
  app.add_flag("--shrink", options.shrink, "drop the faults that are not needed to fail");
  CLI11_PARSE(app, argc, argv);
  if (options.replay >= 0) {
    return Show(
        DrawSchedule(static_cast<uint64_t>(options.replay), options.mutant, options.cluster),
        options);
  }
  if (!options.file.empty()) {
    std::ifstream file(options.file);
    std::ostringstream text;
    text << file.rdbuf();
    Result<Schedule> schedule = ParseSchedule(text.str());
    if (!schedule.ok()) {
      std::cerr << options.file << ": " << schedule.error().message << "\n";
      return 2;
    }
    return Show(*schedule, options);
  }
  size_t dots = seeds.find("..");
  try {
    options.first = std::stoull(seeds.substr(0, dots));
    options.last = dots == std::string::npos ? options.first : std::stoull(seeds.substr(dots + 2));
  } catch (const std::exception&) {
    std::cerr << "--seeds takes A..B, as in 1..1000\n";
    return 2;
  }
  return RunSeeds(options);
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) { return lockstep::sim::Main(argc, argv); }
