// The operator's mind for one large gang: what a decision costs, by machines and by how many times
// the gang was stopped and began again; and the bodies of what it asks and says once a second.
#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/figures.h"
#include "core/gang/status/status_api.h"
#include "tests/operator/policy/scene.h"

namespace lockstep::bench {
namespace {

using control::Decision;
using control::Scene;

constexpr int kSamples = 300;

void SuspendAndResume(Scene& scene) {
  scene.spec().suspend = true;
  scene.Settle();
  for (auto& machine : scene.machines()) machine.end = control::Exited(0);
  scene.Pass(seconds(2));
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  scene.RemoveMachines();
  scene.Settle();
  scene.spec().suspend = false;
  scene.Pass(minutes(1));  // status is written no faster than a gang should live
  scene.Run();
}

// CPU time of this thread: what else runs on the machine is no part of it.
double CpuMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void Measure(int machines, int suspends) {
  Scene scene(control::MakeJob("gpt").Machines(machines).Processes(8));
  scene.Run();
  for (int i = 0; i < suspends; ++i) SuspendAndResume(scene);
  scene.Decide();
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) {
    scene.Pass(seconds(1));
    scene.Running();
    const control::Snapshot& snapshot = scene.snapshot();
    const double began = CpuMilliseconds();
    const Decision decision = control::Decide(snapshot, scene.now);
    samples.push_back(CpuMilliseconds() - began);
  }
  Json line = {{"benchmark", "decide"}, {"figure", "decide"}, {"machines", machines},
               {"suspends", suspends},  {"unit", "ms"},       {"clock", "CPU"}};
  line.update(Spread(samples));
  if (machines == 1024 && suspends == 5) line["limit"] = 2;
  Print(std::move(line));
}

void PrintBody(const char* figure, int machines, const std::string& body, size_t most,
               const std::vector<double>& samples) {
  Json line = {{"benchmark", "decide"}, {"figure", figure}, {"machines", machines},
               {"bytes", body.size()},  {"most", most},     {"unit", "ms"},
               {"clock", "CPU"}};
  line.update(Spread(samples));
  Print(std::move(line));
}

template <typename Read>
std::vector<double> TimesOf(const Read& read) {
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) {
    const double began = CpuMilliseconds();
    read();
    samples.push_back(CpuMilliseconds() - began);
  }
  return samples;
}

// GET /status as read, of a gang that runs, and PUT /gang as read, all of whose machines are new.
void MeasureBodies(int machines) {
  core::GangStatus status;
  status.coordinator = true;
  core::DesiredState desired;
  for (int i = 0; i < machines; ++i) {
    const auto index = static_cast<uint32_t>(i);
    core::GangStatus::MachineStatus machine;
    machine.index = index;
    machine.attempt = 3;
    machine.state = core::GangMachineState::kRunning;
    machine.silent_for = nanoseconds(734'567'891);
    machine.connected = true;
    status.machines.push_back(std::move(machine));
    desired.fenced.push_back({index, 3});
  }
  for (uint32_t rank = 0; rank < core::kMaxProgressInStatus; ++rank) {
    status.progress.push_back({rank, 123'456, 1'000'000, 2.123456789012345, 123456.789});
  }
  const std::string told = core::ToJson(status);
  PrintBody("status", machines, told, core::kMaxStatusBody,
            TimesOf([&] { return core::ParseGangStatus(told).ok(); }));
  const std::string said = core::ToJson(desired);
  PrintBody("gang", machines, said, core::kMaxGangBody,
            TimesOf([&] { return core::ParseDesiredState(said).ok(); }));
}

}  // namespace

int RunDecide(const std::vector<std::string>& /*arguments*/) {
  for (const int machines : {64, 256, 1024, 4096}) {
    for (const int suspends : {0, 5}) Measure(machines, suspends);
    MeasureBodies(machines);
  }
  return 0;
}

}  // namespace lockstep::bench
