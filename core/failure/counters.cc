#include "core/failure/counters.h"

#include <algorithm>
#include <cstdint>

namespace lockstep::core {
namespace {

constexpr uint32_t kMostCounted = uint32_t{1} << 28;

}  // namespace

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
  raise(alone, other.alone);
}

void Counters::Saturate() {
  std::apply(
      [this](const auto&... fields) {
        ((this->*fields.member = std::min(this->*fields.member, kMostCounted)), ...);
      },
      kFields<Counters>);
}

}  // namespace lockstep::core
