#include "bench/figures.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>

namespace lockstep::bench {
namespace {

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

// How busy the machine is with other things shows in figures.
double Load() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : 0;
}

Json Machine() {
  utsname names{};
  uname(&names);
  const auto bytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  return {{"cores", sysconf(_SC_NPROCESSORS_ONLN)},
          {"cpu", CpuModel()},
          {"kernel", names.release},
          {"memoryGiB", std::round(bytes / double{1U << 30})}};
}

}  // namespace

void Print(Json line) {
  static const Json kMachine = Machine();
  line["machine"] = kMachine;
  line["machine"]["load"] = Load();
  std::cout << line.dump() << std::endl;
}

double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

double Round(double value) { return std::round(value * 1000) / 1000; }

double Quantile(std::vector<double> samples, double share) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const double rank = std::ceil(share * static_cast<double>(samples.size()));
  return samples[static_cast<size_t>(std::max(rank, 1.0)) - 1];
}

Json Spread(const std::vector<double>& samples) {
  return {{"p50", Round(Quantile(samples, 0.5))},
          {"p99", Round(Quantile(samples, 0.99))},
          {"max", Round(Quantile(samples, 1))},
          {"samples", samples.size()}};
}

}  // namespace lockstep::bench
