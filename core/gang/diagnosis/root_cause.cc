#include "core/gang/diagnosis/root_cause.h"

#include <algorithm>
#include <utility>

#include "core/failure/peer_loss.h"
#include "core/failure/signals.h"
#include "core/gang/diagnosis/whereabouts.h"

namespace lockstep::core {

namespace {

// A death that may be the first, with its machine, at the coordinator's time.
struct Candidate {
  Failure death;
  Duration uncertainty{};
};

}  // namespace

std::string Describe(const Failure& death, const ProcessNames& names) {
  const std::string who = names.Of(death);
  if (const char* words = RowOf(death.cause).death; *words != '\0') return who + words;
  if (death.cause == Cause::kHang) {
    // Where it was not hangTimeout, its last lines say what it was.
    return who + " made no progress for " +
           (death.stderr_tail.empty() ? "hangTimeout" : death.stderr_tail);
  }
  // Likewise what was found.
  if (death.cause == Cause::kBrokenMetric) return who + ": " + death.stderr_tail;
  if (death.cause == Cause::kCommandNotFound) {
    // Its agent says why in place of last lines.
    return who + " could not be started" +
           (death.stderr_tail.empty() ? " (exit code " + std::to_string(death.exit_code) + ")"
                                      : ": " + death.stderr_tail);
  }
  if (death.cause == Cause::kProcessSignal) {
    return who + " was killed by " + SignalName(death.signal);
  }
  // Of the ranks that exited with 0, only one that the others wait for in MPI is reported.
  return who + " exited with code " + std::to_string(death.exit_code) +
         (death.exit_code == 0 ? " before MPI_Finalize" : "");
}

namespace {

// A SIGKILL or a fault begins in the process itself or comes from outside; what peers of a dead
// process do is exit, abort or die of SIGPIPE. They may be noticed first: their connections to the
// dead one end at once, while it is seen to be dead only when the kernel has given back its memory
// and devices, which takes seconds on a GPU, or when it has printed where it crashed.
bool NeverAReaction(const Candidate& c) { return IsNeverAReaction(c.death); }

bool SurelyBefore(const Candidate& a, const Candidate& b) {
  return a.death.at + a.uncertainty < b.death.at - b.uncertainty;
}

bool Close(const Candidate& a, const Candidate& b) {
  return !SurelyBefore(a, b) && !SurelyBefore(b, a);
}

// Whether `a` is to be blamed before `b`.
bool Before(const Candidate& a, const Candidate& b) {
  const PeerLoss of_a = LossOf(a.death);
  const PeerLoss of_b = LossOf(b.death);
  if (of_a != of_b) return of_a < of_b;
  if (NeverAReaction(a) != NeverAReaction(b)) return NeverAReaction(a);
  // A figure is reported by each rank; the first bad step counts.
  const bool figures =
      a.death.cause == Cause::kBrokenMetric && b.death.cause == Cause::kBrokenMetric;
  if (figures) {
    return std::pair(a.death.step, a.death.rank) < std::pair(b.death.step, b.death.rank);
  }
  if (!Close(a, b)) return SurelyBefore(a, b);
  bool a_killed = a.death.signal != 0;
  bool b_killed = b.death.signal != 0;
  if (a_killed != b_killed) return a_killed;
  return a.death.rank < b.death.rank;
}

// The death that might be thought of as the first in place of `first`.
const Candidate* Rival(const Candidate& first, const std::vector<Candidate>& candidates) {
  auto rival = std::ranges::find_if(candidates, [&](const Candidate& other) {
    const bool same_figure =
        first.death.cause == Cause::kBrokenMetric && other.death.cause == Cause::kBrokenMetric;
    return &other != &first && !same_figure && LossOf(other.death) != PeerLoss::kExitCode &&
           !SurelyBefore(first, other);
  });
  return rival == candidates.end() ? nullptr : &*rival;
}

Failure FromMachine(const MachineFate& fate, Cause cause, std::string message) {
  Failure root;
  root.cause = cause;
  root.machine = static_cast<int>(fate.machine);
  root.message = std::move(message);
  return root;
}

Failure FromDeaths(const std::vector<Candidate>& candidates, const ProcessNames& names) {
  // Before() is no order (being close is not transitive), so the earliest is compared with each.
  const Candidate* first = &candidates.front();
  for (const Candidate& c : candidates) {
    if (Before(c, *first)) first = &c;
  }
  Failure root = first->death;
  root.message = Describe(root, names);
  if (const Candidate* rival = Rival(*first, candidates)) {
    root.message += Close(*rival, *first) ? "; at about the same time, " : "; noticed before it: ";
    root.message += Describe(rival->death, names);
    if (LossOf(rival->death) > LossOf(root))
      root.message += ", whose last words report a lost peer";
  }
  return root;
}

// Ranks that wait for another fall silent with it, and leave with 75 at the same time: the first to
// be noticed may be any of them.
void AddWhereabouts(const std::vector<MachineFate>& fates, const std::vector<Candidate>& candidates,
                    const ProcessNames& names, Failure& root) {
  std::vector<Whereabouts> all;
  for (const MachineFate& fate : fates) {
    all.insert(all.end(), fate.whereabouts.begin(), fate.whereabouts.end());
  }
  if (all.empty()) return;
  const HangVerdict verdict = JudgeHang(all);
  if (root.cause != Cause::kHang) {
    const auto awaited = std::ranges::find_if(candidates, [&](const Candidate& c) {
      return verdict.awaited == static_cast<uint32_t>(c.death.rank) &&
             LossOf(c.death) == PeerLoss::kExitCode;
    });
    if (LossOf(root) == PeerLoss::kExitCode && awaited != candidates.end()) {
      root = awaited->death;
      root.message = Describe(root, names);
    }
    root.message += "; " + verdict.sentence;
    return;
  }
  for (const MachineFate& fate : fates) {
    const bool its = std::ranges::any_of(
        fate.whereabouts, [&](const Whereabouts& of) { return verdict.awaited == of.rank; });
    if (!its) continue;
    root.machine = static_cast<int>(fate.machine);
    root.rank = static_cast<int>(*verdict.awaited);
  }
  root.message = Describe(root, names) + ": " + verdict.sentence;
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

Failure FindRootCause(std::vector<MachineFate> fates, const ProcessNames& names) {
  std::vector<Candidate> candidates;
  for (MachineFate& fate : fates) {
    for (Failure& death : fate.deaths) {
      if (!death.by_itself) continue;
      death.machine = static_cast<int>(fate.machine);
      death.at -= fate.clock_offset;
      candidates.push_back({std::move(death), fate.clock_uncertainty});
    }
  }
  for (const MachineFate& fate : fates) {
    if (!fate.lost) continue;
    Failure root = FromMachine(fate, fate.lost_cause,
                               "machine " + std::to_string(fate.machine) + " " + fate.lost_how);
    AddWhereabouts(fates, {}, names, root);
    return root;
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
      return fate.lease_expired &&
             c.death.at + c.uncertainty >= LapsedAt(fate) - fate.clock_uncertainty;
    });
  });
  if (!candidates.empty()) {
    Failure root = FromDeaths(candidates, names);
    AddWhereabouts(fates, candidates, names, root);
    return root;
  }
  if (lapsed != nullptr) {
    const std::string on = " on machine " + std::to_string(lapsed->machine) + ": ";
    const auto told = std::ranges::find(lapsed->deaths, Cause::kLeaseExpired, &Failure::cause);
    return FromMachine(
        *lapsed, Cause::kLeaseExpired,
        told != lapsed->deaths.end()
            ? "the lease ended" + on + told->stderr_tail
            : "the lease ran out" + on + "a machine was silent for too long, but all came back");
  }
  Failure unknown;
  unknown.cause = Cause::kLeaseExpired;
  unknown.message = "the lease ran out on machine 0";
  return unknown;
}

}  // namespace lockstep::core
