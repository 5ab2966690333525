#include "base/process/kernel.h"

#include <linux/close_range.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

constexpr std::pair<int, int> kOldest{5, 11};

// "5.10.0-30-amd64" is {5, 10}; {0, 0} if it is no such text.
std::pair<int, int> MajorAndMinor(std::string_view release) {
  const char* begin = release.data();
  const char* end = begin + release.size();
  int major = 0;
  int minor = 0;
  const auto [dot, no_major] = std::from_chars(begin, end, major);
  if (no_major != std::errc() || dot == end || *dot != '.') return {};
  const auto [rest, no_minor] = std::from_chars(dot + 1, end, minor);
  return no_minor == std::errc() ? std::pair(major, minor) : std::pair(0, 0);
}

}  // namespace

Status CheckKernel(std::string_view release, int probe_error) {
  if (probe_error == 0 || MajorAndMinor(release) >= kOldest) return {};
  return Error::Denied("Linux " + std::string(release) +
                       " is too old: Lockstep needs Linux 5.11 or later to start processes");
}

Status CheckKernel() {
  utsname names{};
  if (uname(&names) != 0) return ErrnoError("uname", errno);
  // The highest number, which no descriptor has.
  const bool works = syscall(SYS_close_range, ~0U, ~0U, CLOSE_RANGE_CLOEXEC) == 0;
  return CheckKernel(names.release, works ? 0 : errno);
}

}  // namespace lockstep
