#include "worker/agent/gang/second_clock.h"

#include <fcntl.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include <array>
#include <string>

#include "base/unique_fd.h"
#include "base/wall_time.h"

namespace lockstep::agent {
namespace {

// One reading of a clock takes well below a microsecond; only whoever is interrupted takes longer.
constexpr Duration kApart = microseconds(50);
constexpr int kMostReadings = 10;

// One read: the kernel asks every processor for its frequency when it writes all of cpuinfo.
std::string Head(const char* path) {
  std::array<char, 4096> text{};
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "";
  const ssize_t n = read(fd.get(), text.data(), text.size());
  return n <= 0 ? "" : std::string(text.data(), static_cast<size_t>(n));
}

bool HasWord(std::string_view text, std::string_view word) {
  while (!text.empty()) {
    const size_t end = text.find_first_of(" \t\n");
    if (text.substr(0, end) == word) return true;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return false;
}

int64_t ReadCounter() {
#if defined(__x86_64__)
  return static_cast<int64_t>(__rdtsc());
#elif defined(__aarch64__)
  int64_t ticks = 0;
  // The barrier keeps the processor from reading the counter before the clock.
  asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
  return ticks;
#else
#error "SecondClock knows the counters of x86-64 and arm64 only"
#endif
}

int64_t ReadSecondClock(core::SecondClock clock) {
  if (clock == core::SecondClock::kCounter) return ReadCounter();
  return WallNow().time_since_epoch().count();
}

}  // namespace

core::SecondClock SecondClockOf(std::string_view cpuinfo, std::string_view clocksources) {
  // arm64's generic timer: one rate, in every state of the processor, by its architecture.
  if (HasWord(clocksources, "arch_sys_counter")) return core::SecondClock::kCounter;
  const size_t begin = cpuinfo.find("\nflags");
  if (begin == std::string_view::npos) return core::SecondClock::kTimeOfDay;
  const std::string_view line = cpuinfo.substr(begin + 1);
  const std::string_view flags = line.substr(0, line.find('\n'));
  const bool steady = HasWord(flags, "constant_tsc") && HasWord(flags, "nonstop_tsc") &&
                      HasWord(clocksources, "tsc");
  return steady ? core::SecondClock::kCounter : core::SecondClock::kTimeOfDay;
}

core::SecondClock FindSecondClock() {
  return SecondClockOf(Head("/proc/cpuinfo"),
                       Head("/sys/devices/system/clocksource/clocksource0/available_clocksource"));
}

core::ClockReading ReadClocks(core::SecondClock clock) {
  core::ClockReading reading;
  for (int i = 0; i < kMostReadings; ++i) {
    reading.boot = BootTime();
    reading.ticks = ReadSecondClock(clock);
    if (BootTime() - reading.boot < kApart) break;
  }
  return reading;
}

}  // namespace lockstep::agent
