// KvsExchange: the coordinator's side of the table that ranks fill and read at fences (PMI's
// barrier). All ranks see an entry once all ranks of all machines wait in the next fence. Pure; the
// coordinator owns it.
//
// Every machine sends one FENCE, in parts. Then the coordinator sends each machine the first part
// of the whole table, and the machine asks for the others (FENCE_MORE). So a table of megabytes is
// in memory once, and each machine's queue holds one part. Repeated messages do no harm.
//
// Bounded: MostTableBytes limits a machine's entries, and entries are kept only until the next
// fence is complete.
#ifndef LOCKSTEP_CORE_GANG_PROTOCOL_KVS_EXCHANGE_H_
#define LOCKSTEP_CORE_GANG_PROTOCOL_KVS_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/gang/protocol/messages.h"

namespace lockstep::core {

inline constexpr size_t kMaxTableKey = 64;  // bytes, the limit of PMI-1's servers
inline constexpr size_t kMaxTableValue = 1024;

// Bytes of an entry on the wire and in memory, with its key and value.
size_t TableBytes(const TableEntry& entry);

// Limit of TableBytes for one rank and generation, if each of `machines` has `processes` ranks. It
// is the rank's share of 32 MiB, 4 to 256 KiB, and at most its share of 1 MiB for its machine, half
// of a connection's queue. MPICH needs about 1 KiB.
size_t MostTableBytes(uint32_t machines, uint32_t processes);

// Parts in the given order, each small enough for a message; one empty part if there are no
// entries.
std::vector<std::vector<TableEntry>> InParts(std::vector<TableEntry> entries);

class KvsExchange {
 public:
  using Answers = std::vector<std::pair<uint32_t, Fence>>;  // by machine

  KvsExchange(uint32_t machines, uint32_t processes);

  void Begin(Generation generation);

  // The messages to send, by machine. Invalid: the machine exceeds its limit.
  Result<Answers> OnFence(uint32_t machine, const Fence& fence);
  std::optional<Fence> OnMore(const FenceMore& more) const;

 private:
  struct Gathered {
    std::vector<TableEntry> entries;
    size_t bytes = 0;
    uint32_t parts = 0;
    bool whole = false;
  };

  std::optional<Fence> Part(uint32_t part) const;
  Answers Complete();

  size_t most_;  // bytes of one machine's entries
  Generation generation_;
  uint32_t done_ = 0;  // the latest complete fence
  std::vector<Gathered> gathered_;
  uint32_t whole_ = 0;                          // machines
  std::vector<std::vector<TableEntry>> table_;  // entries of done_, in parts
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_PROTOCOL_KVS_EXCHANGE_H_
