#include "base/kernel.h"

#include <linux/close_range.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/text/ascii.h"

namespace lockstep {
namespace {

constexpr std::pair<int, int> kOldest{5, 11};

// "5.10.0-30-amd64" is {5, 10}; {0, 0} if it is no such text.
std::pair<int, int> MajorAndMinor(std::string_view release) {
  const size_t dot = release.find('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view rest = release.substr(dot + 1);
  const auto major = ParseNumber<int>(release.substr(0, dot));
  const auto minor = ParseNumber<int>(rest.substr(0, rest.find_first_not_of("0123456789")));
  if (!major || !minor) return {};
  return {*major, *minor};
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
