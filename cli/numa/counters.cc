#include "cli/numa/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::numa {
namespace {

struct Event {
  uint32_t type;
  uint64_t config;
};

constexpr uint64_t NodeReads(uint64_t result) {
  return PERF_COUNT_HW_CACHE_NODE | (PERF_COUNT_HW_CACHE_OP_READ << 8) | (result << 16);
}

constexpr std::array<Event, kCounterNames.size()> kEvents = {
    {{PERF_TYPE_HW_CACHE, NodeReads(PERF_COUNT_HW_CACHE_RESULT_ACCESS)},
     {PERF_TYPE_HW_CACHE, NodeReads(PERF_COUNT_HW_CACHE_RESULT_MISS)},
     {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
     {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
     {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES}}};

}  // namespace

Counters::Counters() {
  for (size_t i = 0; i < kEvents.size(); ++i) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = kEvents[i].type;
    attributes.config = kEvents[i].config;
    attributes.disabled = 1;
    // Reads of memory are the program's own; what the kernel does for it is counted where it may
    // be.
    attributes.exclude_kernel = kEvents[i].type == PERF_TYPE_HW_CACHE ? 1 : 0;
    for (int again = 0; again < 2; ++again, attributes.exclude_kernel = 1) {
      fds_[i] = UniqueFd(static_cast<int>(
          syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)));
      counts_.errors[i] = fds_[i].valid() ? 0 : errno;
      if (counts_.errors[i] != EACCES) break;
    }
  }
}

void Counters::Start() {
  for (const UniqueFd& fd : fds_) {
    if (!fd.valid()) continue;
    ioctl(fd.get(), PERF_EVENT_IOC_RESET, 0);
    ioctl(fd.get(), PERF_EVENT_IOC_ENABLE, 0);
  }
}

Counts Counters::Stop() {
  for (size_t i = 0; i < fds_.size(); ++i) {
    if (!fds_[i].valid()) continue;
    ioctl(fds_[i].get(), PERF_EVENT_IOC_DISABLE, 0);
    uint64_t value = 0;
    if (read(fds_[i].get(), &value, sizeof value) == sizeof value) {
      counts_.values[i] = value;
    } else {
      counts_.errors[i] = EIO;
    }
  }
  return counts_;
}

}  // namespace lockstep::numa
