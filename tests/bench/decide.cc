// The operator's mind for one large gang: what a decision costs, by machines and by how many times
// the gang was stopped and began again.
#include <string>
#include <vector>

#include "tests/bench/benchmarks.h"
#include "tests/bench/figures.h"
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

}  // namespace

int RunDecide(const std::vector<std::string>& /*arguments*/) {
  for (const int machines : {64, 256, 1024}) {
    for (const int suspends : {0, 5}) Measure(machines, suspends);
  }
  return 0;
}

}  // namespace lockstep::bench
