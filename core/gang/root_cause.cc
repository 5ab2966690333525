#include "core/gang/root_cause.h"

#include <algorithm>
#include <array>
#include <csignal>

#include "core/exit_codes.h"
#include "core/failure/signals.h"

namespace lockstep::core {

namespace {

struct Candidate {
  uint32_t machine = 0;
  const Death* death = nullptr;
  Time at{};
  Duration uncertainty{};
};

std::string Describe(const Candidate& c) {
  std::string who =
      "rank " + std::to_string(c.death->rank) + " on machine " + std::to_string(c.machine);
  switch (c.death->cause) {
    case Cause::kHang:
      return who + " made no progress for hangTimeout";
    case Cause::kCommandNotFound:
      return who + " could not be started (exit code " + std::to_string(c.death->exit_code) + ")";
    case Cause::kProcessSignal:
      return who + " was killed by " + SignalName(c.death->signal);
    case Cause::kOutOfMemory:
      return who + " was killed by the kernel: its machine was out of memory";
    default:
      return who + " exited with code " + std::to_string(c.death->exit_code);
  }
}

bool PeerLost(const Candidate& c) { return c.death->exit_code == kExitPeerLost; }

// A SIGKILL or a fault begins in the process itself or comes from outside; what peers of a dead
// process do is exit, abort or die of SIGPIPE. They may be noticed first: their connections to the
// dead one end at once, while it is seen to be dead only when the kernel has given back its memory
// and devices, which takes seconds on a GPU.
bool NeverAReaction(const Candidate& c) {
  static constexpr std::array kSignals = {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  return std::ranges::find(kSignals, c.death->signal) != kSignals.end();
}

bool SurelyBefore(const Candidate& a, const Candidate& b) {
  return a.at + a.uncertainty < b.at - b.uncertainty;
}

bool Close(const Candidate& a, const Candidate& b) {
  return !SurelyBefore(a, b) && !SurelyBefore(b, a);
}

// Whether `a` is to be blamed before `b`.
bool Before(const Candidate& a, const Candidate& b) {
  if (PeerLost(a) != PeerLost(b)) return PeerLost(b);
  if (NeverAReaction(a) != NeverAReaction(b)) return NeverAReaction(a);
  if (!Close(a, b)) return SurelyBefore(a, b);
  bool a_killed = a.death->signal != 0;
  bool b_killed = b.death->signal != 0;
  if (a_killed != b_killed) return a_killed;
  return a.death->rank < b.death->rank;
}

// The death that might be thought of as the first in place of `first`.
const Candidate* Rival(const Candidate& first, const std::vector<Candidate>& candidates) {
  auto rival = std::ranges::find_if(candidates, [&](const Candidate& other) {
    return &other != &first && !PeerLost(other) && !SurelyBefore(first, other);
  });
  return rival == candidates.end() ? nullptr : &*rival;
}

RootCause FromMachine(const MachineFate& fate, Cause cause, std::string message) {
  RootCause root;
  root.failure.cause = cause;
  root.failure.machine = static_cast<int>(fate.machine);
  root.failure.message = std::move(message);
  return root;
}

RootCause FromDeaths(const std::vector<Candidate>& candidates) {
  // Before() is no order (being close is not transitive), so the earliest is compared with each.
  const Candidate* first = &candidates.front();
  for (const Candidate& c : candidates) {
    if (Before(c, *first)) first = &c;
  }
  RootCause root;
  root.at = first->at;
  root.failure.cause = first->death->cause;
  root.failure.machine = static_cast<int>(first->machine);
  root.failure.rank = static_cast<int>(first->death->rank);
  root.failure.exit_code = first->death->exit_code;
  root.failure.signal = first->death->signal;
  root.failure.stderr_tail = first->death->stderr_tail;
  root.failure.message = Describe(*first);
  if (const Candidate* rival = Rival(*first, candidates)) {
    root.failure.message += Close(*rival, *first)
                                ? "; at the same time, as far as clocks can tell, "
                                : "; noticed before it: ";
    root.failure.message += Describe(*rival);
  }
  return root;
}

Time LapsedAt(const MachineFate& fate) { return fate.lease_expired_at - fate.clock_offset; }

const MachineFate* FirstLapsed(const std::vector<MachineFate>& fates) {
  const MachineFate* first = nullptr;
  for (const MachineFate& fate : fates) {
    if (!fate.lease_expired) continue;
    if (first == nullptr || LapsedAt(fate) < LapsedAt(*first)) first = &fate;
  }
  return first;
}

}  // namespace

RootCause FindRootCause(const std::vector<MachineFate>& fates) {
  std::vector<Candidate> candidates;
  for (const MachineFate& fate : fates) {
    for (const Death& death : fate.deaths) {
      if (!death.by_itself) continue;
      candidates.push_back(
          {fate.machine, &death, death.at - fate.clock_offset, fate.clock_uncertainty});
    }
  }
  for (const MachineFate& fate : fates) {
    if (!fate.lost) continue;
    return FromMachine(fate, fate.lost_cause,
                       "machine " + std::to_string(fate.machine) + " " + fate.lost_how);
  }
  for (const MachineFate& fate : fates) {
    if (!fate.unkillable) continue;
    return FromMachine(fate, Cause::kUnkillable,
                       "a process on machine " + std::to_string(fate.machine) +
                           " did not die within 30 s of SIGKILL");
  }
  const MachineFate* lapsed = FirstLapsed(fates);
  std::erase_if(candidates, [&](const Candidate& c) {
    return std::any_of(fates.begin(), fates.end(), [&](const MachineFate& fate) {
      return fate.lease_expired && c.at + c.uncertainty >= LapsedAt(fate) - fate.clock_uncertainty;
    });
  });
  if (!candidates.empty()) return FromDeaths(candidates);
  if (lapsed != nullptr) {
    return FromMachine(*lapsed, Cause::kLeaseExpired,
                       "the lease ran out on machine " + std::to_string(lapsed->machine) +
                           ": some machine was silent for too long, yet all came back");
  }
  RootCause unknown;
  unknown.failure.cause = Cause::kLeaseExpired;
  unknown.failure.message = "the lease ran out on machine 0";
  return unknown;
}

}  // namespace lockstep::core
