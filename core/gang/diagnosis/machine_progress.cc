#include "core/gang/diagnosis/machine_progress.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::core {
namespace {

// Six digits are exact enough for readers.
double Short(double value) {
  if (!std::isfinite(value) || value == 0) return 0;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  const double rounded = std::round(value * scale) / scale;
  return std::isfinite(rounded) ? rounded : value;
}

double WaitOf(const RankProgress& rank) {
  return rank.waits > 0 ? rank.waited / static_cast<double>(rank.waits) : 0;
}

// The values of one machine's ranks, from `first` to `last`.
template <typename Iterator>
void AddRow(MachineProgress& all, uint32_t machine, Iterator first, Iterator last) {
  const RankProgress* slowest = &first->second;  // those that wait least are waited for
  double most_wait = 0;
  int64_t step_most = 0;
  int64_t step = slowest->step;
  double loss = std::numeric_limits<double>::infinity();
  double loss_most = -loss;
  double tokens = 0;
  uint32_t ranks = 0;
  for (; first != last; ++first) {
    const RankProgress& rank = first->second;
    ++ranks;
    step = std::min(step, rank.step);
    step_most = std::max(step_most, rank.step);
    if (std::isfinite(rank.loss)) {
      loss = std::min(loss, rank.loss);
      loss_most = std::max(loss_most, rank.loss);
    }
    tokens += rank.tokens_per_second;
    most_wait = std::max(most_wait, rank.waited);
    if (WaitOf(rank) < WaitOf(*slowest)) slowest = &rank;
  }
  all.machine.push_back(machine);
  all.ranks.push_back(ranks);
  all.step.push_back(step);
  all.step_most.push_back(step_most);
  if (std::isfinite(loss)) {
    all.loss.push_back(Short(loss));
    all.loss_most.push_back(Short(loss_most));
  }
  all.tokens_per_second.push_back(Short(tokens));
  all.waits.push_back(slowest->waits);
  all.waited.push_back(Short(slowest->waited));
  all.waited_most.push_back(Short(most_wait));
}

}  // namespace

MachineProgress ProgressByMachine(const std::map<uint32_t, RankProgress>& ranks, uint32_t processes,
                                  const Members& members) {
  MachineProgress all;
  for (auto first = ranks.begin(); first != ranks.end();) {
    const uint32_t place = first->first / processes;
    const auto last = ranks.lower_bound((place + 1) * processes);
    const uint32_t machine = place < members.size() ? members.At(place) : place;
    AddRow(all, machine, first, last);
    first = last;
  }
  if (all.loss.size() != all.machine.size()) {
    all.loss.clear();
    all.loss_most.clear();
  }
  return all;
}

bool IsWhole(const MachineProgress& progress) {
  const size_t rows = progress.machine.size();
  const auto fits = [rows](const auto& column) { return column.empty() || column.size() == rows; };
  return fits(progress.ranks) && progress.step.size() == rows && fits(progress.step_most) &&
         fits(progress.loss) && fits(progress.loss_most) && fits(progress.tokens_per_second) &&
         progress.waits.size() == rows && progress.waited.size() == rows &&
         progress.waited_most.size() == rows;
}

}  // namespace lockstep::core
