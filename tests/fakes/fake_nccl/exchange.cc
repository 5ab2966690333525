#include "tests/fakes/fake_nccl/exchange.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <string>

namespace lockstep::fake_nccl {

bool Exchange::Make(RegionId* id) {
  const int fd = memfd_create("fake-nccl", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, sizeof(Region)) != 0) return false;
  *id = {getpid(), fd};
  return true;
}

std::unique_ptr<Exchange> Exchange::Open(const RegionId& id) {
  const std::string path = "/proc/" + std::to_string(id.pid) + "/fd/" + std::to_string(id.fd);
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Region), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return nullptr;
  // All zeros is a region's first state.
  return std::unique_ptr<Exchange>(new Exchange(static_cast<Region*>(memory)));
}

Exchange::~Exchange() { munmap(region_, sizeof(Region)); }

bool Exchange::WaitUntil(const std::function<bool()>& reached) {
  for (;;) {
    const uint32_t bell = region_->bell.load();
    if (stopped_.load()) return false;
    if (reached()) return true;
    // Not for ever: a peer may be killed between a change and its ring.
    const timespec patience{0, 5'000'000};
    syscall(SYS_futex, &region_->bell, FUTEX_WAIT, bell, &patience, nullptr, 0);
  }
}

void Exchange::Ring() {
  region_->bell.fetch_add(1);
  syscall(SYS_futex, &region_->bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Exchange::Stop() {
  stopped_.store(true);
  Ring();
}

}  // namespace lockstep::fake_nccl
