#include "core/preflight/preflight.h"

#include <algorithm>
#include <array>
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

// "610 to 655", of those that were measured.
std::string GpuProducts(const std::vector<GpuFigures>& gpus) {
  double least = kNotMeasured;
  double most = kNotMeasured;
  for (const GpuFigures& gpu : gpus) {
    if (gpu.products < 0) continue;
    least = least < 0 ? gpu.products : std::min(least, gpu.products);
    most = std::max(most, gpu.products);
  }
  if (most < 0) return "";
  return gpus.size() == 1 ? ThreeDigits(most) : ThreeDigits(least) + " to " + ThreeDigits(most);
}

// The fault of a machine, if any.
std::string SlowGpu(const GpuFigures& gpu, double least, double median) {
  const std::string name = "GPU " + std::to_string(gpu.number);
  if (!gpu.fault.empty()) return name + ": " + gpu.fault;
  if (gpu.products < 0 || gpu.products >= least) return "";
  std::string words = name + ": products " + ThreeDigits(gpu.products) +
                      " TFLOP/s, where the median is " + ThreeDigits(median) + " TFLOP/s";
  const std::string clock = InWords(gpu.clock);
  if (!clock.empty()) words += " (" + clock + ")";
  return words;
}

void JudgeGpus(const PreflightLimits& limits, std::vector<MachineFigures>* machines) {
  const double median = MedianGpuProducts(*machines);
  std::vector<double> counts;
  for (const MachineFigures& machine : *machines) {
    counts.push_back(static_cast<double>(machine.gpus.size()));
  }
  const double count = counts.empty() ? 0 : NthLeast(counts, counts.size() / 2);
  for (size_t i = 0; i < machines->size(); ++i) {
    MachineFigures& machine = (*machines)[i];
    const bool answered = machine.figures.products >= 0;
    if (answered && counts[i] < count) {
      machine.slow.push_back(ThreeDigits(counts[i]) + " GPUs answer, where the median is " +
                             ThreeDigits(count));
    }
    for (const GpuFigures& gpu : machine.gpus) {
      std::string slow = SlowGpu(gpu, (1 - limits.margin) * median, median);
      if (!slow.empty()) machine.slow.push_back(std::move(slow));
    }
  }
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

double MedianGpuProducts(const std::vector<MachineFigures>& machines) {
  std::vector<double> all;
  for (const MachineFigures& machine : machines) {
    for (const GpuFigures& gpu : machine.gpus) {
      if (gpu.products >= 0) all.push_back(gpu.products);
    }
  }
  const size_t lower_middle = all.empty() ? 0 : (all.size() - 1) / 2;
  return all.empty() ? kNotMeasured : NthLeast(std::move(all), lower_middle);
}

void Judge(const PreflightLimits& limits, std::vector<MachineFigures>* machines) {
  JudgeGpus(limits, machines);
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

std::string TypicalInWords(const std::vector<MachineFigures>& machines) {
  std::string words = InWords(Medians(machines));
  const double products = MedianGpuProducts(machines);
  if (products < 0) return words;
  return words + (words.empty() ? "" : ", ") + "GPU products " + ThreeDigits(products) + " TFLOP/s";
}

std::string FigureTable(const std::vector<MachineFigures>& machines) {
  // Figures of GPUs only if some machine has any.
  const bool gpus = std::ranges::any_of(machines, [](const MachineFigures& machine) {
    return !machine.gpus.empty() || machine.figures.gpu_link >= 0;
  });
  std::vector<std::vector<std::string>> rows = {
      {"MACHINE", "PRODUCTS, GFLOP/s", "MEMORY, GB/s", "DISK, GB/s", "LINK, GB/s"}};
  if (gpus) rows[0].insert(rows[0].end(), {"GPU LINK, GB/s", "GPU PRODUCTS, TFLOP/s"});
  rows[0].emplace_back();
  for (size_t i = 0; i < machines.size(); ++i) {
    const MachineFigures& machine = machines[i];
    std::vector<std::string> row = {std::to_string(i)};
    for (const FigureKind& kind : kFigureKinds) {
      if (kind.value == &Figures::gpu_link && !gpus) continue;
      const double figure = machine.figures.*kind.value;
      row.push_back(figure < 0 ? "" : ThreeDigits(figure));
    }
    if (gpus) row.push_back(GpuProducts(machine.gpus));
    row.push_back(machine.well() ? "" : "slow: " + machine.Reasons());
    rows.push_back(std::move(row));
  }
  return AlignColumns(rows, "");
}

}  // namespace lockstep::core
