// Who waits for whom in a gang that hangs: one sentence from where its ranks were found. Pure.
#ifndef LOCKSTEP_CORE_GANG_WHEREABOUTS_H_
#define LOCKSTEP_CORE_GANG_WHEREABOUTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/gang/messages.h"

namespace lockstep::core {

// A place in one line, from what a Python process's faulthandler (or py-spy) says of its threads:
// the innermost function of the main thread that is not of the standard library, and, where that is
// an installed package's, the program's own function that called it:
//
//   load_batch (train.py:30)
//   barrier (distributed_c10d.py:3685) in train (train.py:41)
//
// Of the built-in trainer, whose line begins with "Flight: ", what it waits in:
//
//   allreduce 17 "bucket 3"
//
// "" where it shows no function. Any bytes may come in; what is not printable ASCII goes out as
// '?'.
std::string PlaceOf(std::string_view stacks);

struct HangVerdict {
  // "ranks 0-2 are in barrier (train.py:12), rank 3 is in load_batch (train.py:30)"
  std::string sentence;
  // The one rank that is elsewhere than all others, or alone is not in a call that waits for peers.
  std::optional<uint32_t> awaited;
};

// `ranks` is not empty.
HangVerdict JudgeHang(const std::vector<Whereabouts>& ranks);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_WHEREABOUTS_H_
