// How fast a GPU's clock runs, and what its driver says holds it back.
#ifndef LOCKSTEP_CORE_PREFLIGHT_GPU_CLOCK_H_
#define LOCKSTEP_CORE_PREFLIGHT_GPU_CLOCK_H_

#include <cstdint>
#include <string>
#include <tuple>

#include "base/fields.h"

namespace lockstep::core {

enum GpuSlowdown : uint32_t { kSlowedByPower = 1, kSlowedByHeat = 2, kSlowedByHardware = 4 };

struct GpuClock {
  double hertz = 0;     // of its multiprocessors; 0: not said
  double most = 0;      // hertz that it can reach; 0: not said
  uint32_t slowed = 0;  // bits of GpuSlowdown

  friend bool operator==(const GpuClock&, const GpuClock&) = default;
};

// "slowed by its temperature: 1200 of 1980 MHz"; "": nothing is known.
std::string InWords(const GpuClock& clock);

template <>
inline constexpr auto kFields<GpuClock> =
    std::tuple(Field{"hertz", &GpuClock::hertz}, Field{"most", &GpuClock::most},
               Field{"slowed", &GpuClock::slowed});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_PREFLIGHT_GPU_CLOCK_H_
