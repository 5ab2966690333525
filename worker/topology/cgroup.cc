#include "worker/topology/cgroup.h"

#include <algorithm>
#include <sstream>

#include "base/text/ascii.h"
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

// cgroup v1 writes "no limit" as the largest multiple of the page size.
constexpr uint64_t kNoLimitV1 = uint64_t{1} << 62;

// The files' names of one version, behind a folder's.
struct MemoryFiles {
  const char* limit;
  const char* used;
  const char* inactive;  // in memory.stat
};

std::optional<uint64_t> ReadNumber(const std::string& path) {
  return ParseNumber<uint64_t>(ReadSmallFile(path).value_or(""));  // "max" is none
}

void AddLimits(const std::vector<std::string>& folders, const MemoryFiles& files,
               std::vector<MemoryLimit>* limits) {
  for (const std::string& folder : folders) {
    const std::optional<uint64_t> limit = ReadNumber(folder + files.limit);
    if (!limit || *limit >= kNoLimitV1) continue;
    const uint64_t used = ReadNumber(folder + files.used).value_or(0);
    const uint64_t unused =
        NumberOf(ReadSmallFile(folder + "/memory.stat").value_or(""), files.inactive).value_or(0);
    limits->push_back({*limit, used - std::min(used, unused)});
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

std::optional<std::string> ReadInnermost(const std::vector<std::string>& folders,
                                         const std::string& file) {
  for (const std::string& folder : folders) {
    if (std::optional<std::string> text = ReadSmallFile(folder + file)) return text;
  }
  return std::nullopt;
}

std::optional<uint64_t> NumberOf(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  std::string key;
  std::string value;
  while (lines >> key >> value) {
    if (key == name) return ParseNumber<uint64_t>(value);
  }
  return std::nullopt;
}

std::vector<MemoryLimit> ReadMemoryLimits(const std::string& root) {
  const CgroupFolders folders = FindCgroupFolders(root, "memory");
  std::vector<MemoryLimit> limits;
  AddLimits(folders.v2, {"/memory.max", "/memory.current", "inactive_file"}, &limits);
  AddLimits(folders.v1, {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"},
            &limits);
  return limits;
}

}  // namespace lockstep::topology
