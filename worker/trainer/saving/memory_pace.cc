#include "worker/trainer/saving/memory_pace.h"

#include <algorithm>
#include <cassert>

namespace lockstep::trainer {

namespace {

// A decision is a message to all ranks: seldom enough to cost nothing, and often enough to see that
// steps take longer than they did, or that the last checkpoint is written.
constexpr Duration kSoonest = milliseconds(100);
constexpr Duration kLatest = seconds(1);

}  // namespace

MemoryPace::Decision MemoryPace::Decide(Time now, int64_t steps, Duration cost, bool busy) {
  assert(steps > 0);
  const Duration step = std::max<Duration>((now - last_look_) / steps, microseconds(1));
  last_look_ = now;
  const bool first = last_save_ == Time::min();
  const auto apart = duration_cast<Duration>(cost / kMostMemoryCost);
  Decision decision;
  decision.save = !busy && (first || now >= last_save_ + apart) ? 1 : 0;
  if (decision.save != 0) last_save_ = now;
  const Duration rest = last_save_ == Time::min() ? kSoonest : last_save_ + apart - now;
  decision.look = std::max<int64_t>(1, std::clamp(rest, kSoonest, kLatest) / step);
  return decision;
}

}  // namespace lockstep::trainer
