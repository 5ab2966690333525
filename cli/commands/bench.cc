#include "cli/numa/bench.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/interrupt.h"
#include "cli/machine/numa_text.h"
#include "cli/say.h"
#include "core/exit_codes.h"

namespace lockstep::cli {
namespace {

struct BenchOptions {
  numa::Options numa;
  int array_mib = 0;
  bool quick = false;
  std::vector<std::string> only;
  std::string what, json, prometheus, svg;
};

int BenchNuma(const BenchOptions& options) {
  Result<topology::Machine> machine = topology::Discover();
  if (!machine.ok()) machine = topology::WithoutTopology(machine.error().message);
  numa::Options measured = options.numa;
  measured.array_bytes = static_cast<size_t>(options.array_mib) << 20;
  if (options.quick) {
    measured.repetitions = 3;
    measured.array_bytes = size_t{4} << 20;
  }
  for (const std::string& kind : options.only) measured.only.push_back(*numa::ParseKind(kind));
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const StopSignals signals;
  const Result<numa::Report> report =
      numa::RunBench(*machine, measured, Interrupted(), [terminal](int done, int all) {
        if (terminal) std::cerr << "\rrun " << done + 1 << " of " << all << " " << std::flush;
      });
  if (terminal) std::cerr << "\r" << std::string(40, ' ') << "\r";
  if (!report.ok()) {
    Say("bench numa: " + report.error().message);
    return Interrupted() ? core::kExitStopped : core::kExitTrouble;
  }
  const std::string json = DumpJson(NumaJson(*report, ReadMachineFacts("/")), 2) + "\n";
  const bool only_json = options.json == "-";
  std::cout << (only_json ? json : NumaTable(*report));
  const bool written = WriteOrSay(only_json ? "" : options.json, json) &&
                       WriteOrSay(options.prometheus, NumaPrometheus(*report)) &&
                       WriteOrSay(options.svg, NumaHeatMap(*report));
  return written ? core::kExitSuccess : core::kExitTrouble;
}

}  // namespace

void AddBench(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command =
      app.add_subcommand("bench", "Measure what near memory is worth on this machine (bench numa)");
  command->add_option("WHAT", options->what, "numa")->required()->check(CLI::IsMember({"numa"}));
  command->add_option("-r,--repetitions", options->numa.repetitions, "Runs of each setting")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--array-size", options->array_mib,
                   "MiB of each array; default: four times the last-level caches, or less if half "
                   "of the free memory does not hold three")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--only", options->only, "Only settings of these kinds: baseline, local, ...")
      ->delimiter(',')
      ->check(CLI::IsMember({"baseline", "local", "remote", "interleaved", "threads", "processes",
                             "latency", "sizes", "messages"}));
  command->add_flag("--quick", options->quick,
                    "3 runs on 4 MiB: shows whether it works, not how fast");
  command->add_option("--seed", options->numa.seed, "Seed of the order of the runs")
      ->capture_default_str();
  command
      ->add_option("--json", options->json,
                   "Write all figures to a file; -: print them instead of the table")
      ->type_name("FILE");
  command
      ->add_option("--prometheus", options->prometheus,
                   "Write medians for node_exporter's textfile collector")
      ->type_name("FILE");
  command->add_option("--svg", options->svg, "Write a heat map of every pair of nodes")
      ->type_name("FILE");
  command->footer(
      "Examples:\n"
      "  lockstep bench numa\n"
      "  lockstep bench numa --json numa.json --svg numa.svg\n"
      "\n"
      "Measured: STREAM's kernels on local, remote and interleaved memory, by more and more "
      "threads\n"
      "and processes; the latency between all NUMA nodes; working sets from the first cache to\n"
      "memory; messages between processes. docs/reference/cli.md has more.\n"
      "Exit codes: 0 measured; 1 it could not be; 2 wrong usage; 143 interrupted.");
  command->callback([options, invocation] { invocation->exit_code = BenchNuma(*options); });
}

}  // namespace lockstep::cli
