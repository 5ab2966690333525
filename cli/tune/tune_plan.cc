#include "cli/tune/tune_plan.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>
#include <utility>

namespace lockstep::cli {
namespace {

constexpr const char* kThreads = "OMP_NUM_THREADS";

template <typename Value>
std::vector<Value> Or(std::vector<Value> chosen, Value of_job) {
  if (chosen.empty()) return {of_job};
  std::ranges::sort(chosen);
  const auto repeated = std::ranges::unique(chosen);
  chosen.erase(repeated.begin(), repeated.end());
  return chosen;
}

std::string Counted(int32_t count, const char* one, const char* many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

}  // namespace

bool TuneSetting::IsLike(const TuneSetting& other) const {
  return threads == other.threads && bind == other.bind && memory_policy == other.memory_policy;
}

std::string ToString(const TuneSetting& setting) {
  std::string text = Counted(setting.machines, "machine", "machines") + ", " +
                     Counted(setting.processes, "process", "processes") + " each";
  if (setting.threads) text += ", " + Counted(*setting.threads, "thread", "threads");
  text += ", bind " + std::string(core::ToString(setting.bind));
  text += ", memoryPolicy " + std::string(core::ToString(setting.memory_policy));
  return text;
}

std::vector<TuneSetting> SettingsOf(const core::TrainingJob& job, const TuneChoices& choices) {
  const core::Spec& spec = job.spec;
  std::vector<std::optional<int32_t>> threads(choices.threads.begin(), choices.threads.end());
  std::vector<TuneSetting> settings;
  for (const int32_t machines : Or(choices.machines, spec.num_machines)) {
    for (const int32_t processes : Or(choices.processes, spec.processes_per_machine)) {
      for (const std::optional<int32_t> each : Or(threads, std::optional<int32_t>())) {
        for (const core::Bind bind : Or(choices.binds, spec.topology.bind)) {
          for (const core::MemoryPolicy memory :
               Or(choices.memory_policies, spec.topology.memory_policy)) {
            settings.push_back({machines, processes, each, bind, memory});
          }
        }
      }
    }
  }
  std::ranges::sort(settings, {}, [](const TuneSetting& each) {
    return std::tuple(each.ranks(), each.machines, each.threads, each.bind, each.memory_policy);
  });
  return settings;
}

std::vector<int32_t> PowersOfTwo(int32_t limit) {
  std::vector<int32_t> powers;
  for (int32_t power = 1; power < limit; power *= 2) powers.push_back(power);
  powers.push_back(limit);
  return powers;
}

std::vector<size_t> OrderOfTrials(size_t settings, int rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<size_t> order;
  for (int round = 0; round < rounds; ++round) {
    std::vector<size_t> each(settings);
    std::iota(each.begin(), each.end(), size_t{0});
    // std::shuffle differs between libraries.
    for (size_t i = settings; i > 1; --i) std::swap(each[i - 1], each[random() % i]);
    order.insert(order.end(), each.begin(), each.end());
  }
  return order;
}

core::TrainingJob WithSetting(core::TrainingJob job, const TuneSetting& setting) {
  core::Spec& spec = job.spec;
  spec.num_machines = setting.machines;
  spec.processes_per_machine = setting.processes;
  spec.topology.bind = setting.bind;
  spec.topology.memory_policy = setting.memory_policy;
  if (setting.threads) {
    std::erase_if(spec.env, [](const core::EnvVar& each) { return each.name == kThreads; });
    spec.env.push_back(
        {.name = kThreads, .value = std::to_string(*setting.threads), .value_from = {}});
  }
  return job;
}

core::TrainingJob TrialOf(core::TrainingJob job, const TuneSetting& setting,
                          const std::string& folder) {
  job = WithSetting(std::move(job), setting);
  core::Spec& spec = job.spec;
  if (spec.checkpoint != core::Checkpoint{}) {
    spec.checkpoint = {};
    spec.checkpoint.path = folder + "/checkpoints";
    spec.checkpoint.resume = "Never";
  }
  spec.failure_policy.max_restarts = 0;
  spec.failure_policy.max_machine_replacements = 0;
  spec.prestart = core::Prestart::kNever;
  spec.elastic.reset();
  spec.spare_machines = 0;
  spec.preflight = {};
  spec.logs = {};
  spec.grace_period = seconds(5);
  spec.active_deadline_seconds = 0;
  return job;
}

}  // namespace lockstep::cli
