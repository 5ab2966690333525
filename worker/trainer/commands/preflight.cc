#include "worker/trainer/measure/preflight.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "base/text/ascii.h"
#include "base/unique_fd.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/group/cuda_bench.h"
#include "worker/trainer/commands/commands.h"
#include "worker/trainer/cuda/slice_sum.h"
#include "worker/trainer/process/exit_code.h"

namespace lockstep::trainer {
namespace {

using collectives::BenchMemory;
using collectives::Communicator;

struct PreflightCommand {
  PreflightOptions options;
  collectives::Backend backend = collectives::Backend::kAuto;
  std::string once;
  bool json = false;

  int Run() {
    Result<collectives::Options> connection = collectives::OptionsFromEnvironment();
    if (!connection.ok()) return Fail(connection.error());
    connection->backend = backend;
    connection->operation_timeout = seconds(30);
    connection->slice_sum = MakeSliceSum;
    options.processes = connection->local_world;
    if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
      options.threads = std::max(1, ParseNumber<int>(threads).value_or(1));
    }
    std::unique_ptr<BenchMemory> gpu;  // freed after the Communicator that works on it
    const Result<std::unique_ptr<Communicator>> all = collectives::Connect(*connection);
    if (!all.ok()) return Fail(all.error());
    if ((*all)->memory() == collectives::Memory::kDevice) {
      auto made = collectives::MakeDeviceMemory(connection->local_rank);
      if (!made.ok()) return Fail(made.error());
      gpu = std::move(*made);
      options.memory = gpu.get();
    }
    const Result<bool> known = AllPassedBefore(**all);
    if (!known.ok()) return Fail(known.error());
    const int code = *known ? core::kExitSuccess : Check(**all);
    if (code != core::kExitSuccess) return code;
    const Status finished = (*all)->Finish();
    return finished.ok() ? code : Fail(finished.error());
  }

 private:
  Result<bool> AllPassedBefore(Communicator& all) const {
    if (once.empty()) return false;
    const std::unique_ptr<BenchMemory> host = collectives::MakeHostMemory();
    BenchMemory* memory = options.memory != nullptr ? options.memory : host.get();
    const Result<void*> flag = memory->Allocate(sizeof(int64_t));
    if (!flag.ok()) return flag.error();
    int64_t passed = access(once.c_str(), F_OK) == 0 ? 1 : 0;
    if (Status up = memory->Upload(*flag, &passed, sizeof passed); !up.ok()) return up.error();
    Status least = all.AllReduce({*flag, 1, collectives::DataType::kInt64},
                                 collectives::Reduction::kMin, "preflight");
    if (!least.ok()) return least.error();
    if (Status down = memory->Download(&passed, *flag, sizeof passed); !down.ok()) {
      return down.error();
    }
    return passed == 1;
  }

  int Check(Communicator& all) const {
    const Result<PreflightReport> report = Preflight(all, options);
    if (!report.ok()) return Fail(report.error());
    if (all.rank() == 0) {
      std::fputs((json ? ToJsonLine(*report) : ToTable(*report)).c_str(), stdout);
      std::fflush(stdout);
    }
    if (!report->passed()) {
      // Nobody leaves before all know the figures; it fails where one has left already.
      static_cast<void>(all.Barrier("all know the figures").ok());
    }
    const auto machine = static_cast<size_t>(all.rank() / options.processes);
    const MachineFigures& own = report->machines[machine];
    if (!own.well()) {
      Complain({ErrorKind::kBroken, "preflight: machine " + std::to_string(machine) +
                                        " is slow, and to be replaced: " + own.Reasons()});
      return core::kExitBroken;
    }
    if (!report->passed()) {
      // Whoever is slow leaves first, lest the gang stop it before its agent has seen its code.
      const Status lost = all.Barrier("slow machines leave");
      return lost.ok() ? core::kExitTrouble : core::kExitPeerLost;
    }
    if (!once.empty()) {
      const UniqueFd made(open(once.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
      if (!made.valid()) Warn("cannot make " + once + ": every generation is checked");
    }
    return core::kExitSuccess;
  }
};

}  // namespace

void AddPreflight(CLI::App& app, int* exit_code) {
  auto run = std::make_shared<PreflightCommand>();
  CLI::App* command = app.add_subcommand(
      "preflight", "Measure all machines of a gang; the ranks of a slow machine exit with 76");
  command->option_defaults()->always_capture_default();
  command->add_option("--folder", run->options.folder,
                      "folder whose disk is measured; empty: none");
  command
      ->add_option("--margin", run->options.limits.margin,
                   "a machine is slow if it is below the median by this share")
      ->check(CLI::Range(0.0, 1.0, "0..1"));
  for (const core::FigureKind& kind : core::kFigureKinds) {
    if (kind.value == &core::Figures::gpu_link) continue;  // the agents', not measured here
    double& least = run->options.limits.least.*kind.value;
    least = 0;
    command
        ->add_option(std::string("--least-") + kind.name, least,
                     std::string(kind.unit) + "; a machine below this figure is slow")
        ->check(CLI::NonNegativeNumber);
  }
  command->add_option(
      "--once", run->once,
      "measure nothing if every rank has this file; it is written if all machines pass");
  AddChoice(command, "--backend", run->backend, "backend that carries the gradients");
  command->add_flag("--json", run->json, "print a line of JSON instead of the table");
  command->callback([run, exit_code] { *exit_code = run->Run(); });
}

}  // namespace lockstep::trainer
