#include "worker/agent/parked/parked_resources.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/folder.h"
#include "worker/agent/metrics/machine_stats.h"
#include "worker/topology/cgroup.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

// What is to stay free of a memory limit or of the computer's memory: with memory.oom.group, which
// Kubernetes sets, the kernel would kill the whole container.
constexpr uint64_t kLeastFreeShare = 20;
constexpr uint64_t kLeastFreeBytes = uint64_t{2} << 30;  // that is always enough
// Memory is looked at again before ranks that fill it at this speed have taken half of what is free
// above that: some GiB/s is what cores make of pages that they touch first.
constexpr uint64_t kFastestPerMillisecond = uint64_t{8} << 20;
constexpr Duration kLookAtLeast = milliseconds(20);
// As the hook has them.
constexpr auto kAccelerators = std::to_array<std::string_view>(
    {"/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/accel", "/dev/vfio/", "/dev/neuron"});

struct CgroupMemory {
  uint64_t size = 0;
  uint64_t free = 0;
  const char* what = "";
};

// What parked interpreters and ranks share: each limit around them, and the computer's.
std::vector<CgroupMemory> ReadMemories(const std::string& root) {
  std::vector<CgroupMemory> memories;
  for (const topology::MemoryLimit& limit : topology::ReadMemoryLimits(root)) {
    memories.push_back(
        {limit.bytes, limit.bytes - std::min(limit.used, limit.bytes), "the memory limit"});
  }
  const std::string computer = topology::ReadSmallFile(root + "/proc/meminfo").value_or("");
  const auto kib = [&](const char* name) {
    std::istringstream words(topology::StatusField(computer, name).value_or(""));
    uint64_t value = 0;
    return words >> value ? std::optional(value << 10) : std::nullopt;
  };
  const auto size = kib("MemTotal");
  const auto free = kib("MemAvailable");
  if (size && free) memories.push_back({*size, *free, "the computer's memory"});
  return memories;
}

// With less than that parked interpreters go.
uint64_t LeastFree(const CgroupMemory& memory) {
  return std::min(memory.size / kLeastFreeShare, kLeastFreeBytes);
}

std::string ToString(const CgroupMemory& memory) {
  return std::to_string(memory.free >> 20) + " of " + std::to_string(memory.size >> 20) +
         " MiB are free of " + memory.what;
}

}  // namespace

Status ParkedMemory::HasRoom() const {
  for (const CgroupMemory& memory : ReadMemories(root_)) {
    const uint64_t need = interpreter_bytes_ + std::max(interpreter_bytes_, LeastFree(memory));
    if (need <= memory.free) continue;
    return Error::Unavailable("a parked interpreter needs " + std::to_string(need >> 20) +
                              " MiB, and " + ToString(memory));
  }
  return {};
}

void ParkedMemory::Update(pid_t interpreter) {
  // Not of root_, whose processes a test has made up.
  const auto process = MachineStatsReader().ReadProcess(interpreter);
  if (process && process->resident_bytes) interpreter_bytes_ = *process->resident_bytes;
}

Result<Duration> ParkedMemory::Enough() const {
  Duration again = kLookAtMost;
  for (const CgroupMemory& memory : ReadMemories(root_)) {
    const uint64_t least = LeastFree(memory);
    if (memory.free < least) return Error::Unavailable(ToString(memory));
    const uint64_t enough = (memory.free - least) / 2 / kFastestPerMillisecond;
    again = std::min(again, Duration(milliseconds(enough)));
  }
  return std::max(again, kLookAtLeast);
}

std::optional<std::string> OpenAccelerator(const std::string& root, pid_t pid) {
  std::optional<std::string> found;
  ForEachEntry(root + "/proc/" + std::to_string(pid) + "/fd",
               [&found](const std::filesystem::directory_entry& file) {
                 std::error_code gone;
                 std::string path = std::filesystem::read_symlink(file.path(), gone);
                 const bool is_one = std::ranges::any_of(
                     kAccelerators, [&](auto each) { return path.starts_with(each); });
                 if (is_one) found = std::move(path);
               });
  return found;
}

}  // namespace lockstep::agent
