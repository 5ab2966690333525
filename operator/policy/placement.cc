#include <algorithm>

#include "base/backoff.h"
#include "operator/policy/policies.h"

namespace lockstep::control {
namespace {

constexpr Duration kFirstPause = seconds(20);
constexpr Duration kLongestPause = minutes(5);

// Spreads jobs that release their nodes at one moment: adds up to half of the pause, by UID.
Duration Jitter(const std::string& uid, Duration pause) {
  const auto hash = static_cast<int64_t>(std::hash<std::string>()(uid) % 512);
  return pause * hash / 1024;
}

Duration Pause(int releases, const std::string& uid) {
  const Duration pause = DoubledPause(kFirstPause, kLongestPause, releases - 1);
  return pause + Jitter(uid, pause);
}

}  // namespace

void RememberRelease(ReconcileContext& context) {
  if (!context.snapshot.status.attempts.empty()) {
    context.StateOf<&PolicyState::placement>().start_again.reset();
  }
}

// All or nothing: a gang that can't be placed whole lets go, so that two jobs never hold half a
// cluster each for ever. The oldest keeps what it has.
std::optional<Stop> StopForStartTimeout(ReconcileContext& context) {
  // Kueue does the same by its waitForPodsReady.
  const std::optional<QueueSeen>& queue = context.snapshot.queue;
  if (queue && queue->queues != Queues::kAbsent) return std::nullopt;
  const MachineObservation* first = nullptr;
  int pending = 0;
  for (const Machine& machine : context.machines) {
    if (machine.life != Life::kPending || !TakesPart(context, machine)) continue;
    ++pending;
    if (first == nullptr || machine.seen->created < first->created) first = machine.seen;
  }
  PlacementState& memory = context.StateOf<&PolicyState::placement>();
  if (first == nullptr) {
    const bool placed =
        !context.machines.empty() &&
        std::all_of(context.machines.begin(), context.machines.end(), [&](const Machine& m) {
          return m.life >= Life::kWaiting || !TakesPart(context, m);
        });
    if (placed) memory.releases = 0;
    return std::nullopt;
  }
  if (GoesOnWithFewer(context)) return std::nullopt;
  WallTime since = first->created;
  // Machine 0 waits for a node that another has given up.
  if (const auto& elastic = context.snapshot.status.elastic; elastic && elastic->since) {
    since = std::max(since, *elastic->since);
  }
  if (!context.IsDue(since + context.spec().health.start_timeout)) return std::nullopt;
  if (context.snapshot.oldest_waiting) {
    context.note = std::to_string(pending) + " of " + std::to_string(context.machines.size()) +
                   " machines wait for a node beyond startTimeout; the job keeps its nodes, "
                   "because no other job has waited longer";
    return std::nullopt;
  }
  // Decided again until it is written; it counts once.
  if (memory.released_epoch != context.snapshot.status.epoch) ++memory.releases;
  memory.released_epoch = context.snapshot.status.epoch;
  memory.start_again = context.now.boot + Pause(memory.releases, context.snapshot.uid);
  return Stop{.reason = core::StopReason::kScaled,
              .releases = true,
              .message = std::to_string(pending) + " of " +
                         std::to_string(context.machines.size()) +
                         " machines found no node within startTimeout: the gang releases its nodes "
                         "and tries again later"};
}

}  // namespace lockstep::control
