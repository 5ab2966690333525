#include "base/time.h"

#include <ctime>

namespace lockstep {

Time BootTime() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

}  // namespace lockstep
