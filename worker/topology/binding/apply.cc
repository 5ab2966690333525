#include "worker/topology/binding/apply.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace lockstep::topology {
namespace {

constexpr size_t kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;
constexpr int kMpolPreferredMany = 5;  // MPOL_PREFERRED_MANY, which older headers lack

std::vector<unsigned long> ToMask(const IndexList& list) {
  std::vector<unsigned long> mask;
  if (!list.empty()) mask.resize(static_cast<size_t>(list.back()) / kBitsPerWord + 1);
  for (const int index : list) {
    const auto bit = static_cast<size_t>(index);
    mask[bit / kBitsPerWord] |= 1UL << (bit % kBitsPerWord);
  }
  return mask;
}

int SetMempolicy(int mode, const std::vector<unsigned long>& nodes) noexcept {
  // The kernel takes the number of bits, plus one.
  const unsigned long max_node = nodes.size() * kBitsPerWord + 1;
  return syscall(SYS_set_mempolicy, mode, nodes.data(), max_node) == 0 ? 0 : errno;
}

// Whatever the nodes have, and other nodes when they are full.
int PreferNodes(const std::vector<unsigned long>& nodes) noexcept {
  const int error = SetMempolicy(kMpolPreferredMany, nodes);
  return error == EINVAL ? SetMempolicy(MPOL_PREFERRED, nodes) : error;
}

// What was refused; a weaker policy that was taken in its place shows in numa_maps.
int ApplyMemory(MemoryPolicy memory, const std::vector<unsigned long>& nodes) noexcept {
  if (memory == MemoryPolicy::kInterleave) return SetMempolicy(MPOL_INTERLEAVE, nodes);
  if (memory == MemoryPolicy::kPreferred) return PreferNodes(nodes);
  const int error = SetMempolicy(MPOL_BIND, nodes);
  // EPERM is said of the call, whatever it asks.
  if (error != 0 && error != EPERM) PreferNodes(nodes);
  return error;
}

}  // namespace

PreparedBinding Prepare(const RankBinding& rank) {
  PreparedBinding prepared;
  prepared.cpu_mask = ToMask(rank.cpus);
  if (rank.memory != MemoryPolicy::kNone) {
    prepared.node_mask = ToMask(rank.memory_nodes);
    prepared.memory = rank.memory;
  }
  return prepared;
}

BindingErrno ApplyInChild(const PreparedBinding& binding) noexcept {
  BindingErrno result;
  if (!binding.cpu_mask.empty()) {
    const size_t bytes = binding.cpu_mask.size() * sizeof(unsigned long);
    if (syscall(SYS_sched_setaffinity, 0, bytes, binding.cpu_mask.data()) < 0) {
      result.affinity = errno;
    }
  }
  if (!binding.node_mask.empty()) {
    result.memory = ApplyMemory(binding.memory, binding.node_mask);
  }
  return result;
}

}  // namespace lockstep::topology
