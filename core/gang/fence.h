// FenceDesk: the coordinator's side of the table that ranks fill and read at fences (PMI's
// barrier). What a rank has put is everybody's once all ranks of all machines wait in the next
// fence. Pure; the coordinator owns it.
//
// A fence is gathered of one FENCE, in parts, from every machine; then each machine is sent the
// first part of all of it, and asks for the others (FENCE_MORE): so a table of megabytes stands
// once in memory and a part of it in each machine's queue. Saying anything again does no harm.
//
// Bounded: what a machine may put in a fence is (MostTableBytes), and what was put is kept here
// only until the next fence is whole.
#ifndef LOCKSTEP_CORE_GANG_FENCE_H_
#define LOCKSTEP_CORE_GANG_FENCE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "core/gang/messages.h"

namespace lockstep::core {

inline constexpr size_t kMaxTableKey = 64;  // bytes, as PMI-1's servers have it
inline constexpr size_t kMaxTableValue = 1024;

// What an entry takes: of the wire and of memory, its key and value included.
size_t TableBytes(const TableEntry& entry);

// TableBytes that one of `processes` ranks of each of `machines` may put in a generation: its share
// of 32 MiB, at least 4 KiB and at most 256 KiB, and of 1 MiB of its machine, half of what a
// connection queues. MPICH takes some 1 KiB.
size_t MostTableBytes(uint32_t machines, uint32_t processes);

// In the order given, each small enough for a message; one that is empty if there are none.
std::vector<std::vector<TableEntry>> InParts(std::vector<TableEntry> entries);

class FenceDesk {
 public:
  using Answers = std::vector<std::pair<uint32_t, Fence>>;  // by machine

  FenceDesk(uint32_t machines, uint32_t processes);

  void Begin(Generation generation);

  // Whom to send what. Invalid: more than a machine may put.
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

  size_t most_;  // bytes of one machine
  Generation generation_;
  uint32_t done_ = 0;  // the latest fence that is whole
  std::vector<Gathered> gathered_;
  uint32_t whole_ = 0;                          // machines
  std::vector<std::vector<TableEntry>> table_;  // of done_, in parts
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_FENCE_H_
