#include "worker/topology/cgroup.h"

#include <sstream>

#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

void AddFolders(const std::string& mount, std::string path, std::vector<std::string>* folders) {
  // A process outside its cgroup namespace's root: what is above can't be named.
  if (path.find("..") != std::string::npos || path == "/") path.clear();
  for (;; path.erase(path.rfind('/'))) {
    folders->push_back(mount + path);
    if (path.rfind('/') == std::string::npos) return;
  }
}

}  // namespace

// A line of /proc/self/cgroup is "4:cpu,cpuacct:/path", for v2 "0::/path".
CgroupFolders FindCgroupFolders(const std::string& root, const std::string& controller) {
  const std::string mounts = root + "/sys/fs/cgroup/";
  CgroupFolders folders;
  std::istringstream lines(ReadSmallFile(root + "/proc/self/cgroup").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      AddFolders(root + "/sys/fs/cgroup", path, &folders.v2);
      AddFolders(mounts + "unified", path, &folders.v2);
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      AddFolders(mounts + controllers, path, &folders.v1);
      if (controllers != controller) AddFolders(mounts + controller, path, &folders.v1);
    }
  }
  return folders;
}

}  // namespace lockstep::topology
