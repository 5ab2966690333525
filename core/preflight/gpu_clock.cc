#include "core/preflight/gpu_clock.h"

#include <array>
#include <cstdio>

namespace lockstep::core {

std::string InWords(const GpuClock& clock) {
  std::string words;
  if ((clock.slowed & kSlowedByHeat) != 0) {
    words = "slowed by its temperature";
  } else if ((clock.slowed & kSlowedByPower) != 0) {
    words = "slowed by its power cap";
  } else if ((clock.slowed & kSlowedByHardware) != 0) {
    words = "slowed by its hardware";
  }
  if (!(clock.hertz > 0)) return words;
  std::array<char, 96> megahertz{};
  if (clock.most > 0) {
    std::snprintf(megahertz.data(), megahertz.size(), "%.0f of %.0f MHz", clock.hertz / 1e6,
                  clock.most / 1e6);
  } else {
    std::snprintf(megahertz.data(), megahertz.size(), "%.0f MHz", clock.hertz / 1e6);
  }
  return words + (words.empty() ? "at " : ": ") + megahertz.data();
}

}  // namespace lockstep::core
