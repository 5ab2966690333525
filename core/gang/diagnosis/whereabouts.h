// Describes a gang that hangs in one sentence: where its ranks are, and which rank the others wait
// for. Pure.
#ifndef LOCKSTEP_CORE_GANG_DIAGNOSIS_WHEREABOUTS_H_
#define LOCKSTEP_CORE_GANG_DIAGNOSIS_WHEREABOUTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/gang/protocol/messages.h"

namespace lockstep::core {

// A place in one line, from the output of Python's faulthandler (or py-spy): the innermost function
// of the main thread outside the standard library. If that function is from an installed package,
// the program's own function that called it follows:
//
//   load_batch (train.py:30)
//   barrier (distributed_c10d.py:3685) in train (train.py:41)
//
// For the built-in trainer, whose line begins with "Flight: ", the operation that it waits in:
//
//   allreduce 17 "bucket 3"
//
// "" if there is no function. The input may be any bytes; the output has '?' for bytes that are not
// printable ASCII.
std::string PlaceOf(std::string_view stacks);

struct HangVerdict {
  // "ranks 0-2 are in barrier (train.py:12), rank 3 is in load_batch (train.py:30)"
  std::string sentence;
  // The one rank that is in another place than all others, or the only one outside a call that
  // waits for peers.
  std::optional<uint32_t> awaited;
};

// `ranks` is not empty.
HangVerdict JudgeHang(const std::vector<Whereabouts>& ranks);

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_DIAGNOSIS_WHEREABOUTS_H_
