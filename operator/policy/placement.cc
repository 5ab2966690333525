#include <algorithm>

#include "base/backoff.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kFirstPause = seconds(20);
constexpr Duration kLongestPause = minutes(5);

// Spreads jobs that let go at one moment: up to half of the pause again, by UID.
Duration Jitter(const std::string& uid, Duration pause) {
  const auto hash = static_cast<int64_t>(std::hash<std::string>()(uid) % 512);
  return pause * hash / 1024;
}

Duration Pause(int releases, const std::string& uid) {
  const Duration pause = DoubledPause(kFirstPause, kLongestPause, releases - 1);
  return pause + Jitter(uid, pause);
}

}  // namespace

void RememberRelease(Draft& draft) {
  if (!draft.snapshot.status.attempts.empty()) {
    draft.Own<&Memory::placement>().start_again.reset();
  }
}

// All or nothing: a gang that can't be placed whole lets go, so that two jobs never hold half a
// cluster each for ever. The oldest keeps what it has.
std::optional<Stop> StopForStartTimeout(Draft& draft) {
  const MachineObservation* first = nullptr;
  int pending = 0;
  for (const Machine& machine : draft.machines) {
    if (machine.life != Life::kPending) continue;
    ++pending;
    if (first == nullptr || machine.seen->created < first->created) first = machine.seen;
  }
  PlacementMemory& memory = draft.Own<&Memory::placement>();
  if (first == nullptr) {
    const bool placed = !draft.machines.empty() &&
                        std::all_of(draft.machines.begin(), draft.machines.end(),
                                    [](const Machine& m) { return m.life >= Life::kWaiting; });
    if (placed) memory.releases = 0;
    return std::nullopt;
  }
  const WallTime due = first->created + draft.spec().health.start_timeout;
  if (draft.now.wall < due) {
    draft.WakeAt(draft.now.Boot(due));
    return std::nullopt;
  }
  if (draft.snapshot.oldest_waiting) {
    draft.note = std::to_string(pending) + " of " + std::to_string(draft.machines.size()) +
                 " machines wait for a node beyond startTimeout; no job waits for longer, so this "
                 "one keeps its place";
    return std::nullopt;
  }
  ++memory.releases;
  memory.start_again = draft.now.boot + Pause(memory.releases, draft.snapshot.uid);
  return Stop{.reason = core::StopReason::kScaled,
              .releases = true,
              .message = std::to_string(pending) + " of " + std::to_string(draft.machines.size()) +
                         " machines found no node within startTimeout: the gang lets go of its "
                         "nodes and tries again later"};
}

}  // namespace lockstep::control
