#include "worker/agent/measure/gpu_rates.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "base/net/tcp.h"
#include "base/process/process.h"
#include "base/read_until.h"
#include "base/text/json.h"
#include "base/time.h"
#include "core/exit_codes.h"
#include "core/plan/environment.h"
#include "core/plan/trainer_command.h"
#include "worker/agent/processes/program.h"

namespace lockstep::agent {
namespace {

// Together with what else a machine measures they are less than core::kMeasureGpusPatience.
constexpr Duration kGpusPatience = seconds(18);
constexpr Duration kAllReducePatience = seconds(18);
constexpr size_t kMostOutput = size_t{256} << 10;  // bytes
constexpr double kMostNumber = 1 << 20;

void Say(const std::string& words) {
  std::fprintf(stderr, "lockstep-agent: preflight: %s\n", words.c_str());
}

Result<std::string> FindTrainer() {
  const char* path = std::getenv("PATH");
  const auto found =
      FindProgram(std::string(core::kTrainerProgram), path == nullptr ? "" : path, "");
  if (const auto* failure = std::get_if<SpawnFailure>(&found)) {
    return Error::NotFound(failure->message);
  }
  return std::get<std::string>(found);
}

Result<SpawnedProcess> Start(Spawner& spawner, const std::string& program,
                             std::vector<std::string> arguments, std::vector<std::string> env) {
  arguments.insert(arguments.begin(), {std::string(core::kTrainerProgram), "bench"});
  SpawnResult result = spawner.Spawn({.path = program,
                                      .argv = std::move(arguments),
                                      .env = std::move(env),
                                      .capture_stderr = false});
  if (const auto* failure = std::get_if<SpawnFailure>(&result)) {
    return Error::Unavailable(failure->message);
  }
  return std::get<SpawnedProcess>(std::move(result));
}

// Its exit code; -1: it was killed, by a signal or here, for it took too long.
int EndOf(const SpawnedProcess& process, Time until) {
  for (;;) {
    const auto left = (until - BootTime()) / milliseconds(1);
    pollfd wait{process.pidfd.get(), POLLIN, 0};
    if (left <= 0 || poll(&wait, 1, static_cast<int>(left)) > 0 || errno != EINTR) break;
  }
  syscall(SYS_pidfd_send_signal, process.pidfd.get(), SIGKILL, nullptr, 0);
  int status = 0;
  while (waitpid(process.pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A port of 127.0.0.1 that is free now.
Result<std::string> FreePort() {
  const Result<Endpoint> any = MakeEndpoint("127.0.0.1", 0);
  if (!any.ok()) return any.error();
  const Result<UniqueFd> listener = ListenTcp(*any, 1);
  if (!listener.ok()) return listener.error();
  const Result<Endpoint> own = LocalEndpoint(listener->get());
  if (!own.ok()) return own.error();
  const std::string text = own->ToString();
  return text.substr(text.rfind(':') + 1);
}

// A process a GPU. What lacks NCCL on this machine lacks it on all, and is no figure.
double MeasureLink(Spawner& spawner, const std::string& program, size_t gpus) {
  const Result<std::string> port = FreePort();
  if (!port.ok()) {
    Say(port.error().message);
    return core::kNotMeasured;
  }
  const Time until = BootTime() + kAllReducePatience;
  std::vector<SpawnedProcess> ranks;
  bool lacks_it = false;
  for (size_t rank = 0; rank < gpus; ++rank) {
    std::vector<std::string> env;
    const core::Variables own = {
        {"RANK", std::to_string(rank)},       {"WORLD_SIZE", std::to_string(gpus)},
        {"LOCAL_RANK", std::to_string(rank)}, {"LOCAL_WORLD_SIZE", std::to_string(gpus)},
        {"MASTER_ADDR", "127.0.0.1"},         {"MASTER_PORT", *port},
        {"LOCKSTEP_GENERATION", "preflight"}};
    for (std::string& variable : OwnEnvironment()) {
      const bool replaced = std::ranges::any_of(
          own, [&](const auto& each) { return variable.starts_with(each.first + "="); });
      if (!replaced) env.push_back(std::move(variable));
    }
    for (const auto& [name, value] : own) env.emplace_back(name).append("=").append(value);
    Result<SpawnedProcess> started =
        Start(spawner, program,
              {"allreduce", "--backend=nccl", "--reduce=nccl", "--begin=16M", "--end=16M",
               "--warmup=2", "--iterations=5", "--json"},
              std::move(env));
    if (!started.ok()) {
      Say(started.error().message);
      lacks_it = true;
      break;
    }
    ranks.push_back(std::move(*started));
  }
  bool ended = lacks_it;
  const std::string said =
      lacks_it ? "" : ReadUntil(ranks[0].stdout_fd.get(), until, kMostOutput, &ended);
  for (const SpawnedProcess& rank : ranks) {
    lacks_it |= EndOf(rank, lacks_it ? BootTime() : until) == core::kExitUsage;
  }
  return lacks_it ? core::kNotMeasured : ParseAllReduce(said);
}

template <typename Each>
void ForEachLine(std::string_view lines, const char* type, const Each& each) {
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size() - 1);
    const Json json = ParseJson(lines.substr(0, end + 1));
    lines.remove_prefix(end + 1);
    if (json.is_object() && json.value("type", Json()) == Json(type)) each(json);
  }
}

// `fallback` where it is no number from 0 on.
double NumberOf(const Json& json, const char* name, double fallback) {
  if (!json.contains(name) || !json[name].is_number()) return fallback;
  const double number = json[name].get<double>();
  return std::isfinite(number) && number >= 0 ? number : fallback;
}

}  // namespace

std::vector<core::GpuFigures> ParseGpuLines(std::string_view lines) {
  std::vector<core::GpuFigures> gpus;
  ForEachLine(lines, "gpu", [&](const Json& json) {
    if (gpus.size() == core::kMaxGpus) return;
    core::GpuFigures gpu;
    gpu.number = static_cast<uint32_t>(std::min(NumberOf(json, "gpu", 0), kMostNumber));
    gpu.products = NumberOf(json, "products", core::kNotMeasured);
    gpu.clock = {NumberOf(json, "clock_hertz", 0), NumberOf(json, "max_clock_hertz", 0),
                 static_cast<uint32_t>(std::min(NumberOf(json, "slowed", 0), kMostNumber))};
    if (json.contains("fault") && json["fault"].is_string()) {
      gpu.fault = json["fault"].get<std::string>().substr(0, core::kMaxGpuFault);
    }
    gpus.push_back(std::move(gpu));
  });
  return gpus;
}

double ParseAllReduce(std::string_view lines) {
  double busbw = 0;
  bool passed = false;
  ForEachLine(lines, "size", [&](const Json& json) { busbw = NumberOf(json, "busbw", 0); });
  ForEachLine(lines, "summary",
              [&](const Json& json) { passed = json.value("passed", Json()) == Json(true); });
  return passed ? busbw : 0;
}

GpuRates MeasureGpus() {
  GpuRates rates;
  const Result<std::string> program = FindTrainer();
  Result<std::unique_ptr<Spawner>> spawner = Spawner::Create();
  if (!program.ok() || !spawner.ok()) {
    Say("GPUs are not measured: " +
        (program.ok() ? spawner.error().message : program.error().message));
    return rates;
  }
  const Time until = BootTime() + kGpusPatience;
  const Result<SpawnedProcess> bench =
      Start(**spawner, *program, {"gpus", "--json"}, OwnEnvironment());
  if (!bench.ok()) {
    Say(bench.error().message);
    return rates;
  }
  bool ended = false;
  rates.gpus = ParseGpuLines(ReadUntil(bench->stdout_fd.get(), until, kMostOutput, &ended));
  if (EndOf(*bench, until) == -1) Say("the GPUs' products gave no answer in time");
  if (rates.gpus.size() > 1) rates.link = MeasureLink(**spawner, *program, rates.gpus.size());
  return rates;
}

}  // namespace lockstep::agent
