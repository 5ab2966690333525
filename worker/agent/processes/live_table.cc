#include "worker/agent/processes/live_table.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

namespace lockstep::agent {

Result<std::unique_ptr<LiveTable>> LiveTable::Create() {
  UniqueFd memory(memfd_create("lockstep-live", MFD_CLOEXEC));
  if (!memory.valid()) return ErrnoError("memfd_create", errno);
  if (ftruncate(memory.get(), sizeof(Page)) != 0) return ErrnoError("ftruncate", errno);
  Result<std::unique_ptr<LiveTable>> table = Open(std::move(memory));
  if (table.ok()) (*table)->page_->lease_end.store(kNever.count());
  return table;
}

Result<std::unique_ptr<LiveTable>> LiveTable::Open(UniqueFd memory) {
  void* page = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (page == MAP_FAILED) return ErrnoError("mmap of the live table", errno);
  return std::unique_ptr<LiveTable>(new LiveTable(std::move(memory), static_cast<Page*>(page)));
}

LiveTable::~LiveTable() { munmap(page_, sizeof(Page)); }

Status LiveTable::Add(pid_t group) {
  for (std::atomic<int32_t>& slot : page_->groups) {
    if (slot.load() != 0) continue;
    slot.store(group);
    return {};
  }
  return Error::TooLarge("more than " + std::to_string(kMaxGroups) + " processes on one machine");
}

void LiveTable::Remove(pid_t group) {
  for (std::atomic<int32_t>& slot : page_->groups) {
    if (slot.load() == group) slot.store(0);
  }
}

bool LiveTable::SetLeaseEnd(Time end) {
  return page_->lease_end.exchange(end.count()) > end.count();
}

void LiveTable::EndKilling(Time lease_end) {
  page_->killed_for.store(lease_end.count());
  page_->killing.store(0);
}

std::vector<pid_t> LiveTable::groups() const {
  std::vector<pid_t> live;
  for (const std::atomic<int32_t>& slot : page_->groups) {
    const pid_t group = slot.load();
    if (group != 0) live.push_back(group);
  }
  return live;
}

}  // namespace lockstep::agent
