// Memory whose pages lie on NUMA nodes that are asked for, and where they really are.
//
//   PlacedMemory memory(bytes);
//   if (!memory.Place({{.id = 1, .cpu = 2}})) ...
//   ...  // touch it
//   auto where = memory.Count({{.id = 1, .cpu = 2}});
#ifndef LOCKSTEP_WORKER_TOPOLOGY_BINDING_PLACED_MEMORY_H_
#define LOCKSTEP_WORKER_TOPOLOGY_BINDING_PLACED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep::topology {

// A NUMA node that memory may come from, and a CPU of it that may be used.
struct MemoryNode {
  int id = 0;
  int cpu = 0;
};

// Binds the calling thread to `cpu`; false: errno says why not.
bool PinTo(int cpu);

// Whole huge pages of this process alone, with a page that nobody may touch on both sides, so that
// the kernel shows them by themselves in numa_maps.
class PlacedMemory {
 public:
  explicit PlacedMemory(size_t bytes);
  ~PlacedMemory();
  PlacedMemory(const PlacedMemory&) = delete;
  PlacedMemory& operator=(const PlacedMemory&) = delete;

  char* begin() const { return begin_; }  // nullptr: there is no such memory
  size_t bytes() const { return bytes_; }

  // Lays the pages on the nodes, in turn where there are several: by policy or, where that is
  // refused, by touching each from a CPU of its node; the caller binds itself afterwards. With no
  // nodes they come by first touch. False: it can't run on such a CPU, errno says why.
  bool Place(const std::vector<MemoryNode>& nodes);
  int mbind_errno() const { return mbind_errno_; }  // why not by policy; 0: it was
  bool huge_pages() const { return huge_pages_; }   // the kernel took the wish for them

  struct Pages {
    uint64_t all = 0;     // that numa_maps shows; 0: it doesn't
    uint64_t placed = 0;  // those of them on the nodes; with no nodes all
  };
  Pages Count(const std::vector<MemoryNode>& nodes) const;

 private:
  int Mbind(const std::vector<MemoryNode>& nodes) const;

  size_t bytes_ = 0, size_ = 0;
  char* raw_ = nullptr;
  char* begin_ = nullptr;
  int mbind_errno_ = 0;
  bool huge_pages_ = false;
};

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_BINDING_PLACED_MEMORY_H_
