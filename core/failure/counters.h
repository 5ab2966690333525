// Counters: the counters of a job over its whole life, for status, messages and metrics.
#ifndef LOCKSTEP_CORE_FAILURE_COUNTERS_H_
#define LOCKSTEP_CORE_FAILURE_COUNTERS_H_

#include <cstdint>
#include <tuple>

#include "base/fields.h"

namespace lockstep::core {

// Every counter only grows and has one writer, so any two copies merge by maximum. The charge to a
// budget is a counter minus its base; a reset raises the base.
struct Counters {
  uint32_t generations = 0;       // started; coordinator
  uint32_t process_failures = 0;  // coordinator
  uint32_t process_failures_base = 0;
  uint32_t out_of_memory = 0;       // ends of whole containers; operator
  uint32_t out_of_memory_base = 0;  // coordinator
  uint32_t replacements = 0;        // operator
  uint32_t replacements_base = 0;   // operator
  uint32_t leases_expired = 0;      // coordinator
  uint32_t stops = 0;               // coordinator
  uint32_t alone = 0;               // restarts of a rank alone, not all charged; coordinator

  int application_used() const {
    return static_cast<int>(process_failures - process_failures_base + out_of_memory -
                            out_of_memory_base);
  }
  int infrastructure_used() const { return static_cast<int>(replacements - replacements_base); }
  void Merge(const Counters& other);
  // No job reaches 2^28, but an agent may lie: with this limit the sum of all fits an int32.
  void Saturate();
  friend bool operator==(const Counters&, const Counters&) = default;
};

template <>
inline constexpr auto kFields<Counters> =
    std::tuple(Field{"generations", &Counters::generations},
               Field{"processFailures", &Counters::process_failures},
               Field{"processFailuresBase", &Counters::process_failures_base},
               Field{"outOfMemory", &Counters::out_of_memory},
               Field{"outOfMemoryBase", &Counters::out_of_memory_base},
               Field{"replacements", &Counters::replacements},
               Field{"replacementsBase", &Counters::replacements_base},
               Field{"leasesExpired", &Counters::leases_expired}, Field{"stops", &Counters::stops},
               Field{"alone", &Counters::alone});

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_FAILURE_COUNTERS_H_
