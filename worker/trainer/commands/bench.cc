#include "worker/trainer/collectives/group/bench.h"

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/group/cuda_bench.h"
#include "worker/trainer/collectives/nccl/nccl_log.h"
#include "worker/trainer/commands/commands.h"
#include "worker/trainer/cuda/check/cuda_check.h"
#include "worker/trainer/cuda/slice_sum.h"
#include "worker/trainer/measure/copy_bench.h"
#include "worker/trainer/measure/gpu_bench.h"
#include "worker/trainer/process/exit_code.h"

namespace lockstep::trainer {

namespace {

using collectives::Communicator;

Result<std::unique_ptr<Communicator>> Meet(collectives::Backend backend, core::Reduce algorithm,
                                           int* local_rank) {
  collectives::KeepNcclLog();
  Result<collectives::Options> options = collectives::OptionsFromEnvironment();
  if (!options.ok()) return options.error();
  options->backend = backend;
  options->algorithm = algorithm;
  options->slice_sum = MakeSliceSum;
  *local_rank = options->local_rank;
  return collectives::Connect(*options);
}

struct AllReduceBench {
  collectives::Backend backend = collectives::Backend::kAuto;
  core::Reduce algorithm = core::Reduce::kTree;
  collectives::BenchOptions options;
  bool json = false;

  int Run() {
    int local_rank = 0;
    std::unique_ptr<collectives::BenchMemory> gpu;  // freed after the Communicator that works on it
    Result<std::unique_ptr<Communicator>> all = Meet(backend, algorithm, &local_rank);
    if (!all.ok()) return Fail(all.error());
    if ((*all)->memory() == collectives::Memory::kDevice) {
      auto made = collectives::MakeDeviceMemory(local_rank);
      if (!made.ok()) return Fail(made.error());
      gpu = std::move(*made);
      options.memory = gpu.get();
    }
    const Result<collectives::BenchReport> report = BenchAllReduce(**all, options);
    if (!report.ok()) return Fail(report.error());
    if ((*all)->rank() == 0) {
      std::fputs((json ? ToJsonLines(*report) : ToTable(*report)).c_str(), stdout);
      std::fflush(stdout);
    }
    Status finished = (*all)->Finish();
    if (!finished.ok()) return Fail(finished.error());
    return report->passed ? core::kExitSuccess : core::kExitTrouble;
  }
};

int CheckCuda() {
  int local_rank = 0;
  Result<std::unique_ptr<Communicator>> all =
      Meet(collectives::Backend::kNccl, core::Reduce::kTree, &local_rank);
  if (!all.ok()) return Fail(all.error());
  const Result<CudaCheckReport> report = RunCudaCheck(**all, {.local_rank = local_rank});
  if (!report.ok()) return Fail(report.error());
  if ((*all)->rank() == 0) std::printf("%s\n", ToJson(*report).c_str());
  std::fflush(stdout);
  Status finished = (*all)->Finish();
  return finished.ok() ? core::kExitSuccess : Fail(finished.error());
}

void AddAllReduce(CLI::App* bench, int* exit_code) {
  auto run = std::make_shared<AllReduceBench>();
  collectives::BenchOptions& options = run->options;
  CLI::App* command = bench->add_subcommand("allreduce", "Measure and check the ranks' allreduce");
  command->option_defaults()->always_capture_default();
  const CLI::Validator size = CLI::AsSizeValue(false).description("");
  command->add_option("-b,--begin", options.begin, "smallest message: bytes, or 8K, 1M, 1G")
      ->transform(size);
  command->add_option("-e,--end", options.end, "largest message")->transform(size);
  command->add_option("-f,--factor", options.factor, "from one size to the next")
      ->check(CLI::Range(2, 1024, "2..1024"));
  command->add_option("-w,--warmup", options.warmup, "iterations without measurement at each size")
      ->check(CLI::NonNegativeNumber);
  command->add_option("-n,--iterations", options.iterations, "iterations that are measured")
      ->check(CLI::PositiveNumber);
  command->add_option("-c,--check", options.check, "check the values: 1 or 0");
  command
      ->add_option("--min-busbw", options.min_busbw,
                   "least bus bandwidth of the largest size in GB/s, else exit code 1")
      ->check(CLI::NonNegativeNumber);
  AddChoice(command, "--backend", run->backend, "backend that carries the gradients");
  AddChoice(command, "--reduce", run->algorithm,
            "how gradients are summed; ring needs Gloo, nccl needs NCCL");
  command->add_flag("--json", run->json, "print a line of JSON for each size, and one for all");
  command->callback([run, exit_code] { *exit_code = run->Run(); });
}

struct RunCopyBench {
  CopyBenchOptions options;
  bool json = false;

  int Run() const {
    const Result<topology::Machine> machine = topology::Discover();
    if (!machine.ok()) return Fail(machine.error());
    const Result<CopyReport> report = BenchCopies(*machine, options);
    if (!report.ok()) return Fail(report.error());
    std::fputs((json ? ToJsonLines(*report) : ToTable(*report)).c_str(), stdout);
    return core::kExitSuccess;
  }
};

void AddCopies(CLI::App* bench, int* exit_code) {
  auto run = std::make_shared<RunCopyBench>();
  CLI::App* command = bench->add_subcommand(
      "copies", "Measure copies between each GPU and pinned memory of each NUMA node");
  command->option_defaults()->always_capture_default();
  command->add_option("-b,--bytes", run->options.bytes, "size of a copy: bytes, or 8K, 1M, 1G")
      ->transform(CLI::AsSizeValue(false).description(""))
      ->check(CLI::PositiveNumber);
  command
      ->add_option("-n,--iterations", run->options.iterations,
                   "copies in each direction, for each pair")
      ->check(CLI::Range(1, 100'000, "1..100000"));
  command->add_flag("--json", run->json, "print a line of JSON for each GPU and node");
  command->callback([run, exit_code] { *exit_code = run->Run(); });
}

int RunGpuBench(bool json) {
  const Result<std::vector<GpuRow>> rows = BenchGpus();
  if (!rows.ok()) return Fail(rows.error());
  std::fputs((json ? ToJsonLines(*rows) : ToTable(*rows)).c_str(), stdout);
  return core::kExitSuccess;
}

void AddGpus(CLI::App* bench, int* exit_code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = bench->add_subcommand(
      "gpus", "Measure matrix products and clocks of all GPUs at once, and check memory errors");
  command->add_flag("--json", *json, "print a line of JSON for each GPU");
  command->callback([json, exit_code] { *exit_code = RunGpuBench(*json); });
}

}  // namespace

void AddBench(CLI::App& app, int* exit_code) {
  CLI::App* bench = app.add_subcommand("bench", "Measure the speed that a training run would have");
  bench->require_subcommand(1);
  AddAllReduce(bench, exit_code);
  AddCopies(bench, exit_code);
  AddGpus(bench, exit_code);
  app.add_subcommand("cuda-check",
                     "Train a small model on the GPUs over NCCL, and check the result")
      ->callback([exit_code] { *exit_code = CheckCuda(); });
}

}  // namespace lockstep::trainer
