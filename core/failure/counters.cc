#include "core/failure/counters.h"

#include <algorithm>
#include <cstdint>

namespace lockstep::core {

void Counters::Merge(const Counters& other) {
  auto raise = [](uint32_t& mine, uint32_t theirs) { mine = std::max(mine, theirs); };
  raise(generations, other.generations);
  raise(process_failures, other.process_failures);
  raise(process_failures_base, other.process_failures_base);
  raise(out_of_memory, other.out_of_memory);
  raise(out_of_memory_base, other.out_of_memory_base);
  raise(replacements, other.replacements);
  raise(replacements_base, other.replacements_base);
  raise(leases_expired, other.leases_expired);
  raise(stops, other.stops);
}

}  // namespace lockstep::core
