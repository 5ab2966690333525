#include "cli/run/output/usage_text.h"

#include <cstdint>
#include <cstdio>

namespace lockstep::cli {
namespace {

// With three digits, in the largest unit of which it has one.
std::string Scaled(int64_t value, double step, const std::array<const char*, 5>& units) {
  if (value < 0) return "-";
  auto scaled = static_cast<double>(value);
  size_t unit = 0;
  for (; scaled >= 999.5 && unit + 1 < units.size(); ++unit) scaled /= step;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", scaled, units[unit]);
  return text.data();
}

}  // namespace

std::array<std::string, 4> UsageCells(const std::optional<core::Usage>& usage) {
  const core::Usage seen = usage.value_or(core::Usage{});
  std::string cpu = "-";
  if (seen.cpu_millicores >= 0) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f",
                  static_cast<double>(seen.cpu_millicores) / 1000);
    cpu = text.data();
  }
  constexpr std::array kRates = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return {cpu, Scaled(seen.memory, 1024, {"B", "KiB", "MiB", "GiB", "TiB"}),
          Scaled(seen.received, 1000, kRates), Scaled(seen.sent, 1000, kRates)};
}

}  // namespace lockstep::cli
