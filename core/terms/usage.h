// What a machine's ranks use: CPU, memory and network.
#ifndef LOCKSTEP_CORE_TERMS_USAGE_H_
#define LOCKSTEP_CORE_TERMS_USAGE_H_

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "base/fields.h"

namespace lockstep::core {

// -1: not known.
struct Usage {
  int64_t cpu_millicores = -1;  // at work
  int64_t memory = -1;          // resident bytes
  int64_t received = -1;        // bytes a second, of the machine's network
  int64_t sent = -1;            // likewise

  // What an agent that lies says is held to what a status may hold.
  void Saturate() {
    for (int64_t* figure : {&cpu_millicores, &memory, &received, &sent}) {
      *figure = std::clamp<int64_t>(*figure, -1, int64_t{1} << 53);
    }
  }
  bool known() const { return cpu_millicores >= 0 || memory >= 0 || received >= 0 || sent >= 0; }
  friend bool operator==(const Usage&, const Usage&) = default;
};

template <>
inline constexpr auto kFields<Usage> = std::tuple(
    Field{"cpuMillicores", &Usage::cpu_millicores}, Field{"memoryBytes", &Usage::memory},
    Field{"receivedBytesPerSecond", &Usage::received}, Field{"sentBytesPerSecond", &Usage::sent});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TERMS_USAGE_H_
