// What a machine's ranks use: CPU, memory and network; and which of them work.
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

  // Limits a lying agent's figures to the range of status.
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

// How many of a machine's ranks work, by what the kernel counted of their processes since the last
// time: CPU time, and bytes that they read and wrote.
struct RankActivity {
  uint32_t ranks = 0;          // that were looked at
  uint32_t working = 0;        // of these
  uint32_t unknown = 0;        // of these: a thread that waits for a GPU uses CPU time, too
  uint32_t first_working = 0;  // the lowest rank that works

  friend bool operator==(const RankActivity&, const RankActivity&) = default;
};

template <>
inline constexpr auto kFields<RankActivity> = std::tuple(
    Field{"ranks", &RankActivity::ranks}, Field{"working", &RankActivity::working},
    Field{"unknown", &RankActivity::unknown}, Field{"firstWorking", &RankActivity::first_working});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_TERMS_USAGE_H_
