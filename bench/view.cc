// The page of a large gang: what `lockstep run --ui` spends on one answer of machine 0 while a page
// is open. That is reading the answer, taking it into the view, writing what has changed, and
// compressing it as the server does above 1 MiB.
#include "cli/ui/view.h"

#include <string>
#include <vector>

#include "bench/benchmarks.h"
#include "bench/figures.h"
#include "cli/run/output/history.h"
#include "cli/ui/page_file.h"
#include "core/gang/status/status_api.h"

namespace lockstep::bench {
namespace {

constexpr int kSamples = 200;
constexpr int kProcesses = 8;
constexpr Time kBegan = hours(1);

double ThreadMilliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Every machine has something new in each.
core::GangStatus StatusAt(uint32_t machines, int64_t step) {
  core::GangStatus status;
  status.attempt = 1;
  status.coordinator = true;
  status.phase = core::CoordinatorPhase::kRunning;
  status.generation = {1, 1};
  for (uint32_t m = 0; m < machines; ++m) {
    core::GangStatus::MachineStatus& machine = status.machines.emplace_back();
    machine.index = m;
    machine.attempt = 1;
    machine.state = core::GangMachineState::kRunning;
    machine.silent_for = milliseconds(100 + (m + step) % 700);
    machine.connected = true;
    core::MachineProgress& by = status.by_machine;
    by.machine.push_back(m);
    by.ranks.push_back(kProcesses);
    by.step.push_back(step);
    by.step_most.push_back(step + 1);
    by.loss.push_back(2.4 + static_cast<double>(m) / 4096);
    by.loss_most.push_back(2.6 + static_cast<double>(m) / 4096);
    by.tokens_per_second.push_back(123456.0 + m);
    by.waits.push_back(step);
    by.waited.push_back(0.011 * static_cast<double>(step));
    by.waited_most.push_back(0.037 * static_cast<double>(step));
  }
  return status;
}

void Measure(uint32_t machines) {
  core::TrainingJob job;
  job.metadata.name = "gpt";
  job.spec.num_machines = static_cast<int32_t>(machines);
  job.spec.processes_per_machine = kProcesses;
  cli::History history;
  cli::ViewJob shown;
  shown.job = job;
  cli::View view(shown, &history, kBegan);
  std::vector<double> samples;
  size_t bytes = 0;
  size_t sent = 0;
  for (int i = 1; i <= kSamples; ++i) {
    const std::string told = core::ToJson(StatusAt(machines, 2 * i));
    const Time now = kBegan + seconds(i);
    const uint64_t seen = view.version();
    const double began = ThreadMilliseconds();
    const auto status = core::ParseGangStatus(told);
    if (!status.ok()) continue;
    history.Update(*status, kBegan);
    view.Update(*status, now, kBegan);
    const std::string body = view.Json(seen, now);
    sent = cli::Compress(body).size();
    samples.push_back(ThreadMilliseconds() - began);
    bytes = body.size();
  }
  Json line = {{"benchmark", "view"},  {"figure", "answer"},
               {"machines", machines}, {"processes", kProcesses},
               {"bytes", bytes},       {"compressed", sent},
               {"unit", "ms"},         {"clock", "CPU"}};
  line.update(Spread(samples));
  if (machines == 4096) line["limit"] = 50;  // 5 % of a core, once a second
  Print(std::move(line));
}

}  // namespace

int RunView(const std::vector<std::string>& /*arguments*/) {
  for (const uint32_t machines : {2U, 64U, 1024U, 4096U}) Measure(machines);
  return 0;
}

}  // namespace lockstep::bench
