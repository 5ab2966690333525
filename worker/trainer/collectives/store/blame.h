// Finds the rank that the others wait for. Pure.
#ifndef LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_BLAME_H_
#define LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_BLAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "worker/trainer/collectives/store/failure.h"

namespace lockstep::collectives {

// A rank that was silent for longer is stopped, or its machine is gone: heartbeats come every
// 250 ms.
inline constexpr Duration kSilence = milliseconds(1500);

// What the store knows of one rank.
struct RankProgress {
  uint64_t issued = 0;    // the last operation handed to the Communicator
  uint64_t finished = 0;  // the last one done
  Duration silence{};     // since its last heartbeat
};

// The report that started it.
struct LateOperation {
  int rank = 0;   // who reports
  int peer = -1;  // of a send or receive
  std::string what;
};

// kTimeout with a message for people. To blame, in this order: the rank that is silent; the peer of
// a late send or receive; the rank that issued the fewest operations; else nobody.
Failure Blame(const std::vector<RankProgress>& ranks, const LateOperation& late);

// "rank 3", "ranks 3, 5 and 9", "ranks 3, 5, 9 and 40 others".
std::string NameRanks(const std::vector<int>& ranks);

}  // namespace lockstep::collectives

#endif  // LOCKSTEP_WORKER_TRAINER_COLLECTIVES_STORE_BLAME_H_
