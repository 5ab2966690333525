#include "worker/topology/cpu_quota.h"

#include <cstdlib>
#include <sstream>
#include <vector>

#include "worker/topology/small_file.h"

namespace lockstep::topology {
namespace {

struct Hierarchy {
  std::string mount;  // "/sys/fs/cgroup/cpu"
  std::string path;   // "/kubepods/pod1/abc"
  bool v2 = false;
};

// A line of /proc/self/cgroup is "4:cpu,cpuacct:/path", for v2 "0::/path".
std::vector<Hierarchy> Hierarchies(const std::string& proc_cgroup) {
  std::vector<Hierarchy> found;
  std::istringstream lines(proc_cgroup);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      found.push_back({"/sys/fs/cgroup", path, true});
      found.push_back({"/sys/fs/cgroup/unified", path, true});
    } else if (("," + controllers + ",").find(",cpu,") != std::string::npos) {
      found.push_back({"/sys/fs/cgroup/" + controllers, path, false});
      if (controllers != "cpu") found.push_back({"/sys/fs/cgroup/cpu", path, false});
    }
  }
  return found;
}

// In CPUs; 0 when the numbers say "no limit" or make no sense.
double Ratio(const std::string& quota, const std::string& period) {
  const double quota_us = std::strtod(quota.c_str(), nullptr);
  const double period_us = std::strtod(period.c_str(), nullptr);
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : 0;
}

CpuQuota ReadDirectory(const std::string& root, const std::string& directory, bool v2) {
  if (v2) {
    const std::string file = directory + "/cpu.max";
    const std::string text = ReadSmallFile(root + file).value_or("");
    const size_t blank = text.find(' ');
    if (blank == std::string::npos) return {};
    return {Ratio(text.substr(0, blank), text.substr(blank + 1)), file};
  }
  const std::string file = directory + "/cpu.cfs_quota_us";
  return {Ratio(ReadSmallFile(root + file).value_or(""),
                ReadSmallFile(root + directory + "/cpu.cfs_period_us").value_or("")),
          file};
}

}  // namespace

CpuQuota ReadCpuQuota(const std::string& root) {
  CpuQuota tightest{0, "no limit in any cgroup"};
  const std::string proc_cgroup = ReadSmallFile(root + "/proc/self/cgroup").value_or("");
  for (const Hierarchy& hierarchy : Hierarchies(proc_cgroup)) {
    for (std::string path = hierarchy.path;; path.erase(path.rfind('/'))) {
      if (path == "/") path.clear();
      const CpuQuota quota = ReadDirectory(root, hierarchy.mount + path, hierarchy.v2);
      if (quota.cpus > 0 && (tightest.cpus == 0 || quota.cpus < tightest.cpus)) tightest = quota;
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return tightest;
}

}  // namespace lockstep::topology
