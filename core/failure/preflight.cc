#include "core/failure/preflight.h"

#include <algorithm>
#include <cstdio>

#include "base/text/columns.h"

namespace lockstep::core {
namespace {

std::string ThreeDigits(double figure) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", figure);
  return text.data();
}

std::string WithUnit(const FigureKind& kind, double figure) {
  return ThreeDigits(figure) + " " + kind.unit;
}

double NthLeast(std::vector<double> values, size_t n) {
  const auto at = values.begin() + static_cast<ptrdiff_t>(n);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

std::string MachineFigures::Reasons() const {
  std::string all;
  for (const std::string& reason : slow) all += (all.empty() ? "" : "; ") + reason;
  return all;
}

Figures Medians(const std::vector<MachineFigures>& machines) {
  Figures medians;
  for (const FigureKind& kind : kFigureKinds) {
    std::vector<double> values;
    for (const MachineFigures& machine : machines) {
      if (machine.figures.*kind.value >= 0) values.push_back(machine.figures.*kind.value);
    }
    const size_t lower_middle = values.empty() ? 0 : (values.size() - 1) / 2;
    if (!values.empty()) medians.*kind.value = NthLeast(std::move(values), lower_middle);
  }
  return medians;
}

void Judge(const PreflightLimits& limits, std::vector<MachineFigures>* machines) {
  const Figures medians = Medians(*machines);
  for (const FigureKind& kind : kFigureKinds) {
    const double median = medians.*kind.value;
    const double least = limits.least.*kind.value;
    for (MachineFigures& machine : *machines) {
      const double figure = machine.figures.*kind.value;
      if (figure < 0) continue;
      const std::string said = std::string(kind.name) + " " + WithUnit(kind, figure);
      if (figure < least) {
        machine.slow.push_back(said + ", and " + WithUnit(kind, least) + " is the least");
        machine.below_least = true;
      } else if (figure < (1 - limits.margin) * median) {
        machine.slow.push_back(said + ", where the median is " + WithUnit(kind, median));
      }
    }
  }
}

// The circle method: one stays, the others go around.
std::vector<std::vector<std::pair<int, int>>> PairRounds(int count, int most) {
  std::vector<std::vector<std::pair<int, int>>> rounds;
  const int seats = count + count % 2;
  for (int round = 0; round < std::min(seats - 1, most); ++round) {
    const auto at = [&](int seat) { return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1); };
    std::vector<std::pair<int, int>> pairs;
    for (int seat = 0; seat < seats / 2; ++seat) {
      const auto [low, high] = std::minmax({at(seat), at(seats - 1 - seat)});
      if (high < count) pairs.emplace_back(low, high);  // the last seat may be empty
    }
    rounds.push_back(std::move(pairs));
  }
  return rounds;
}

double MedianLink(std::vector<double> rates) {
  if (rates.empty()) return kNotMeasured;
  const size_t upper_middle = rates.size() / 2;
  return NthLeast(std::move(rates), upper_middle);
}

std::string InWords(const Figures& figures) {
  std::string words;
  for (const FigureKind& kind : kFigureKinds) {
    const double figure = figures.*kind.value;
    if (figure < 0) continue;
    words += (words.empty() ? "" : ", ") + std::string(kind.name) + " " + WithUnit(kind, figure);
  }
  return words;
}

std::string FigureTable(const std::vector<MachineFigures>& machines) {
  std::vector<std::vector<std::string>> rows = {
      {"MACHINE", "PRODUCTS, GFLOP/s", "MEMORY, GB/s", "DISK, GB/s", "LINK, GB/s", ""}};
  for (size_t i = 0; i < machines.size(); ++i) {
    const MachineFigures& machine = machines[i];
    std::vector<std::string> row = {std::to_string(i)};
    for (const FigureKind& kind : kFigureKinds) {
      const double figure = machine.figures.*kind.value;
      row.push_back(figure < 0 ? "" : ThreeDigits(figure));
    }
    row.push_back(machine.well() ? "" : "slow: " + machine.Reasons());
    rows.push_back(std::move(row));
  }
  return AlignColumns(rows, "");
}

}  // namespace lockstep::core
