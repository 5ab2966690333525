#include "worker/agent/metrics/machine_stats.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/text/ascii.h"
#include "worker/topology/cgroup.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

using topology::NumberOf;
using topology::ReadInnermost;
using topology::ReadSmallFile;

void ReadMemory(const std::string& root, MachineStats* stats) {
  const topology::CgroupFolders folders = topology::FindCgroupFolders(root, "memory");
  if (const auto current = ReadInnermost(folders.v2, "/memory.current")) {
    stats->memory_bytes = ParseNumber<uint64_t>(*current);
    stats->reclaimable_bytes =
        NumberOf(ReadInnermost(folders.v2, "/memory.stat").value_or(""), "inactive_file");
    stats->oom_events = NumberOf(ReadInnermost(folders.v2, "/memory.events").value_or(""), "oom");
  } else if (const auto usage = ReadInnermost(folders.v1, "/memory.usage_in_bytes")) {
    stats->memory_bytes = ParseNumber<uint64_t>(*usage);
    stats->reclaimable_bytes =
        NumberOf(ReadInnermost(folders.v1, "/memory.stat").value_or(""), "total_inactive_file");
  }
  for (const topology::MemoryLimit& limit : topology::ReadMemoryLimits(root)) {
    stats->memory_limit_bytes =
        std::min(limit.bytes, stats->memory_limit_bytes.value_or(limit.bytes));
  }
}

void ReadThrottling(const std::string& root, MachineStats* stats) {
  const topology::CgroupFolders folders = topology::FindCgroupFolders(root, "cpu");
  const std::string v2 = ReadInnermost(folders.v2, "/cpu.stat").value_or("");
  const std::string v1 = ReadInnermost(folders.v1, "/cpu.stat").value_or("");
  if (const auto microseconds = NumberOf(v2, "throttled_usec")) {
    stats->cpu_throttled_seconds = static_cast<double>(*microseconds) / 1e6;
  } else if (const auto nanoseconds = NumberOf(v1, "throttled_time")) {
    stats->cpu_throttled_seconds = static_cast<double>(*nanoseconds) / 1e9;
  }
}

bool IsMount(const std::string& root, std::string_view path) {
  std::istringstream lines(ReadSmallFile(root + "/proc/self/mounts").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string device;
    std::string folder;
    if (words >> device >> folder && folder == path) return true;
  }
  return false;
}

void ReadSharedMemory(const std::string& root, MachineStats* stats) {
  struct statvfs fs;
  if (!IsMount(root, "/dev/shm") || statvfs((root + "/dev/shm").c_str(), &fs) != 0) return;
  stats->shared_memory_used_bytes = (fs.f_blocks - fs.f_bfree) * fs.f_frsize;
  // A tmpfs of "size=0" has no limit.
  if (fs.f_blocks > 0) stats->shared_memory_size_bytes = fs.f_blocks * fs.f_frsize;
}

}  // namespace

MachineStats MachineStatsReader::Read() const {
  MachineStats stats;
  ReadMemory(root_, &stats);
  stats.oom_kills = ReadOomKills();
  ReadThrottling(root_, &stats);
  ReadSharedMemory(root_, &stats);
  return stats;
}

std::optional<uint64_t> MachineStatsReader::ReadOomKills() const {
  const topology::CgroupFolders folders = topology::FindCgroupFolders(root_, "memory");
  std::optional<std::string> events = ReadInnermost(folders.v2, "/memory.events");
  if (!events) events = ReadInnermost(folders.v1, "/memory.oom_control");
  return NumberOf(events.value_or(""), "oom_kill");
}

std::optional<ProcessStats> MachineStatsReader::ReadProcess(pid_t pid) const {
  const auto text = ReadSmallFile(root_ + "/proc/" + std::to_string(pid) + "/stat");
  if (!text) return std::nullopt;
  // The name in parentheses may hold blanks and parentheses itself. Fields as proc(5) numbers them.
  const size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text->substr(name_end + 1));
  std::string state;
  words >> state;  // 3
  std::vector<int64_t> fields(25, 0);
  for (size_t i = 4; i < fields.size(); ++i) {
    if (!(words >> fields[i])) return std::nullopt;
  }
  static const double ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  static const auto page_size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  ProcessStats stats;
  stats.cpu_seconds = static_cast<double>(fields[14] + fields[15]) / ticks_per_second;
  stats.children_seconds = static_cast<double>(fields[16] + fields[17]) / ticks_per_second;
  stats.start_ticks = static_cast<uint64_t>(fields[22]);
  if (state != "Z" && state != "X") {
    stats.resident_bytes = static_cast<uint64_t>(std::max<int64_t>(fields[24], 0)) * page_size;
  }
  return stats;
}

}  // namespace lockstep::agent
