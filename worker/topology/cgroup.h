// Where the limits and counters of this process's cgroup stand.
#ifndef LOCKSTEP_WORKER_TOPOLOGY_CGROUP_H_
#define LOCKSTEP_WORKER_TOPOLOGY_CGROUP_H_

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

}  // namespace lockstep::topology

#endif  // LOCKSTEP_WORKER_TOPOLOGY_CGROUP_H_
