#include "core/gang/diagnosis/stragglers.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace lockstep::core {
namespace {

constexpr double kThrottled = 0.05;  // of its time: worth naming
constexpr size_t kMostRanks = 4096;  // of a machine; beyond processesPerMachine's limit

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::string Percent(double share) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "%.0f%%", 100 * share);
  return text.data();
}

}  // namespace

void StragglerFinder::Begin(const Members& members) {
  members_ = members;
  machines_.assign(members.size(), {});
  rounds_.clear();
  found_.reset();
}

void StragglerFinder::Update(Time now, const RankProgress& rank) {
  const size_t index = rank.rank / processes_;
  if (machines_.size() < 2 || index >= machines_.size() || rank.waits <= 0 || !(rank.waited >= 0)) {
    return;
  }
  auto& ranks = machines_[index].ranks;
  if (ranks.size() >= kMostRanks && !ranks.contains(rank.rank)) return;
  const auto [place, first] = ranks.try_emplace(rank.rank);
  place->second.now = {rank.waits, rank.waited, rank.throttled, now};
  place->second.gpu = {rank.rank, rank.gpu, rank.gpu_clock, 0};
  // Its first steps are no measure: caches are cold.
  if (first) place->second.before = place->second.now;
  if (!IsOver()) return;
  Round round = Take();
  if (round.steps == 0) return;
  rounds_.push_back(std::move(round));
  if (rounds_.size() > kRounds) rounds_.pop_front();
  Judge();
}

bool StragglerFinder::IsOver() const {
  return std::all_of(machines_.begin(), machines_.end(), [](const MachineRanks& machine) {
    return !machine.ranks.empty() &&
           std::all_of(machine.ranks.begin(), machine.ranks.end(), [](const auto& rank) {
             return rank.second.now.steps > rank.second.before.steps;
           });
  });
}

StragglerFinder::Round StragglerFinder::Take() {
  std::vector<double> waits;  // of each machine, in seconds a step
  std::vector<double> steps;  // how long each rank's took
  Round round;
  round.gpus = HeldBackGpus();
  for (MachineRanks& machine : machines_) {
    double least = 0;
    double most = 0;
    double throttled = 0;
    double longest = 0;
    bool first = true;
    for (auto& [number, rank] : machine.ranks) {
      const int64_t count = rank.now.steps - rank.before.steps;
      const double passed = Seconds(rank.now.at - rank.before.at);
      const double wait = (rank.now.waited - rank.before.waited) / static_cast<double>(count);
      least = first ? wait : std::min(least, wait);
      most = first ? wait : std::max(most, wait);
      first = false;
      steps.push_back(passed / static_cast<double>(count));
      throttled = std::max(throttled, rank.now.throttled - rank.before.throttled);
      longest = std::max(longest, passed);
      round.steps = round.steps == 0 ? count : std::min(round.steps, count);
      rank.before = rank.now;
    }
    waits.push_back(least);
    round.spread.push_back(most - least);
    round.throttled.push_back(throttled);
    round.seconds.push_back(longest);
  }
  const double step = Median(steps);
  if (!(step > 0)) {
    round.steps = 0;
    return round;
  }
  round.last = static_cast<uint32_t>(std::min_element(waits.begin(), waits.end()) - waits.begin());
  for (size_t i = 0; i < waits.size(); ++i) {
    std::vector<double> others = waits;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    round.costs.push_back((Median(std::move(others)) - waits[i]) / step);
    round.spread[i] /= step;
  }
  return round;
}

bool StragglerFinder::Gpu::HeldBack() const {
  if ((clock.slowed & (kSlowedByHeat | kSlowedByHardware)) != 0) return true;
  return clock.hertz > 0 && clock.hertz < (1 - kLowClock) * median;
}

std::string StragglerFinder::Gpu::InWords() const {
  const std::string of_rank = "rank " + std::to_string(rank);
  std::string words =
      number < 0 ? "the GPU of " + of_rank : "GPU " + std::to_string(number) + " (" + of_rank + ")";
  words += " is " + core::InWords(clock);
  if (!(clock.hertz > 0)) return words;
  std::array<char, 64> typical{};
  std::snprintf(typical.data(), typical.size(), ", the median is %.0f", median / 1e6);
  return words + typical.data();
}

std::vector<StragglerFinder::Gpu> StragglerFinder::HeldBackGpus() const {
  std::vector<double> clocks;
  for (const MachineRanks& machine : machines_) {
    for (const auto& [number, rank] : machine.ranks) {
      if (rank.gpu.clock.hertz > 0) clocks.push_back(rank.gpu.clock.hertz);
    }
  }
  // For an even number the upper one, because of two GPUs the slower one is no reference.
  const auto middle = clocks.begin() + static_cast<std::ptrdiff_t>(clocks.size() / 2);
  if (!clocks.empty()) std::nth_element(clocks.begin(), middle, clocks.end());
  const double median = clocks.empty() ? 0 : *middle;
  std::vector<Gpu> held(machines_.size());
  for (size_t i = 0; i < machines_.size(); ++i) {
    for (const auto& [number, rank] : machines_[i].ranks) {
      Gpu gpu = rank.gpu;
      gpu.median = median;
      const bool slowest = !held[i].HeldBack() || gpu.clock.hertz < held[i].clock.hertz;
      if (gpu.HeldBack() && slowest) held[i] = gpu;
    }
  }
  return held;
}

void StragglerFinder::Judge() {
  if (rounds_.size() < kRounds) return;
  std::vector<size_t> times(machines_.size());
  int64_t steps = 0;
  for (const Round& round : rounds_) {
    ++times[round.last];
    steps += round.steps;
  }
  const auto most = std::max_element(times.begin(), times.end());
  const auto place = static_cast<uint32_t>(most - times.begin());
  const uint32_t machine = members_.At(place);
  std::vector<double> costs;
  for (const Round& round : rounds_) costs.push_back(round.costs[place]);
  const double cost = Median(std::move(costs));
  const bool still = found_ && found_->machine == machine && cost >= kWell;
  const bool last = static_cast<double>(*most) >= kShare * static_cast<double>(kRounds);
  found_.reset();
  if (steps < kLeastSteps) return;
  if (!still && (!last || cost < kCost)) return;
  found_ = Straggler{machine, std::min(cost, 1.0), steps, Because(place)};
}

std::string StragglerFinder::Because(uint32_t place) const {
  // Over all rounds together, because the kernel's counter is read less often than rounds may end.
  double throttled = 0;
  double seconds = 0;
  std::vector<double> spread;
  size_t held_back = 0;
  Gpu gpu;
  for (const Round& round : rounds_) {
    throttled += round.throttled[place];
    seconds += round.seconds[place];
    spread.push_back(round.spread[place]);
    if (!round.gpus[place].HeldBack()) continue;
    ++held_back;
    gpu = round.gpus[place];
  }
  std::string because;
  if (seconds > 0 && throttled / seconds >= kThrottled) {
    because = "its CPU limit throttled it for " + Percent(throttled / seconds) + " of the time";
  }
  if (2 * held_back >= rounds_.size()) {
    because += (because.empty() ? "" : "; ") + gpu.InWords();
  }
  if (processes_ < 2) return because;
  if (!because.empty()) because += "; ";
  return because + (Median(std::move(spread)) < kWell ? "its ranks are equally slow"
                                                      : "its ranks differ among themselves");
}

}  // namespace lockstep::core
