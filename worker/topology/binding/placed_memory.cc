#include "worker/topology/binding/placed_memory.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstring>
#include <sstream>
#include <string>

#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

constexpr size_t kHugePage = 2 << 20;

}  // namespace

bool PinTo(int cpu) {
  std::vector<unsigned long> mask(static_cast<size_t>(cpu) / (sizeof(long) * CHAR_BIT) + 1);
  mask.back() = 1UL << (static_cast<size_t>(cpu) % (sizeof(long) * CHAR_BIT));
  return syscall(SYS_sched_setaffinity, 0, mask.size() * sizeof(long), mask.data()) >= 0;
}

PlacedMemory::PlacedMemory(size_t bytes)
    : bytes_((bytes + kHugePage - 1) / kHugePage * kHugePage), size_(bytes_ + 2 * kHugePage) {
  void* raw = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return;
  raw_ = static_cast<char*>(raw);
  char* begin = raw_ + 1;  // leaves a page in front, whatever its size
  begin += (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  if (mprotect(begin, bytes_, PROT_READ | PROT_WRITE) == 0) begin_ = begin;
}

PlacedMemory::~PlacedMemory() {
  if (raw_ != nullptr) munmap(raw_, size_);
}

int PlacedMemory::Mbind(const std::vector<MemoryNode>& nodes) const {
  std::vector<unsigned long> mask;
  for (const MemoryNode& node : nodes) {
    const size_t word = static_cast<size_t>(node.id) / (sizeof(long) * CHAR_BIT);
    mask.resize(std::max(mask.size(), word + 1));
    mask[word] |= 1UL << (static_cast<size_t>(node.id) % (sizeof(long) * CHAR_BIT));
  }
  const int mode = nodes.size() > 1 ? MPOL_INTERLEAVE : MPOL_BIND;
  return syscall(SYS_mbind, begin_, bytes_, mode, mask.data(),
                 mask.size() * sizeof(long) * CHAR_BIT + 1, 0) == 0
             ? 0
             : errno;
}

bool PlacedMemory::Place(const std::vector<MemoryNode>& nodes) {
  huge_pages_ = madvise(begin_, bytes_, MADV_HUGEPAGE) == 0;
  if (nodes.empty()) return true;
  mbind_errno_ = Mbind(nodes);
  if (mbind_errno_ == 0) return true;
  for (size_t node = 0; node < nodes.size(); ++node) {
    if (!PinTo(nodes[node].cpu)) return false;
    for (size_t at = node * kHugePage; at < bytes_; at += nodes.size() * kHugePage) {
      std::memset(begin_ + at, 0, kHugePage);
    }
  }
  return true;
}

// They stand in the line of numa_maps that begins with the address: "N0=512 N1=3".
PlacedMemory::Pages PlacedMemory::Count(const std::vector<MemoryNode>& nodes) const {
  Pages pages;
  std::array<char, 20> address{};
  std::to_chars(address.data(), address.data() + address.size() - 1,
                reinterpret_cast<uintptr_t>(begin_), 16);
  std::istringstream maps(ReadSmallFile("/proc/thread-self/numa_maps").value_or(""));
  for (std::string line; std::getline(maps, line);) {
    if (!line.starts_with(std::string(address.data()) + " ")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      int node = 0;
      uint64_t count = 0;
      const char* end = word.data() + word.size();
      if (word[0] != 'N') continue;
      const auto number = std::from_chars(word.data() + 1, end, node);
      if (number.ec != std::errc() || number.ptr == end || *number.ptr != '=') continue;
      if (std::from_chars(number.ptr + 1, end, count).ec != std::errc()) continue;
      pages.all += count;
      const bool placed = nodes.empty() || std::any_of(nodes.begin(), nodes.end(),
                                                       [&](const auto& n) { return n.id == node; });
      if (placed) pages.placed += count;
    }
  }
  return pages;
}

}  // namespace lockstep::topology
