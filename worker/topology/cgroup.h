// Where the limits and counters of this process's cgroup stand.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_CGROUP_H_
#define LOCKSTEP_WORKER_TOPOLOGY_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::topology {

// Folders that may count this process, by version; the innermost first within a mount. A container
// often sees its own cgroup as the root of the mount while /proc/self/cgroup gives the host's path,
// so every beginning of that path is here, and not all of them exist.
struct CgroupFolders {
  std::vector<std::string> v2;
  std::vector<std::string> v1;
};

// The folders of one controller ("cpu", "memory"), read below `root`.
CgroupFolders FindCgroupFolders(const std::string& root, const std::string& controller);

// What stands in `file` of the first folder that has it; nullopt where none has.
std::optional<std::string> ReadInnermost(const std::vector<std::string>& folders,
                                         const std::string& file);

// The number behind `name` in a file of lines "name number", such as memory.stat; nullopt without.
std::optional<uint64_t> NumberOf(const std::string& text, const std::string& name);

// Of one cgroup that limits this process's memory.
struct MemoryLimit {
  uint64_t bytes = 0;
  uint64_t used = 0;  // without pages of files that nobody uses, which whoever needs memory gets
};

// Of every cgroup with a limit among this process's own and those above that can be seen below
// `root`.
std::vector<MemoryLimit> ReadMemoryLimits(const std::string& root);

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_CGROUP_H_
