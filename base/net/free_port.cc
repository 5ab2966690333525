#include "base/net/free_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/unique_fd.h"

namespace lockstep {

namespace {

constexpr uint32_t kLowest = 20000;  // below it well-known services live
constexpr uint32_t kHighest = 65535;
constexpr uint32_t kMaxTries = 2000;

// Without SO_REUSEADDR: a port that is only lingering is not free either.
bool Bindable(int family, const sockaddr* address, socklen_t size) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return family == AF_INET6;  // no IPv6 here: nothing can listen on it
  if (family == AF_INET6) {
    int only = 1;
    setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
  }
  return bind(fd.get(), address, size) == 0;
}

bool IsFree(uint32_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = v4.sin_port;
  return Bindable(AF_INET, reinterpret_cast<const sockaddr*>(&v4), sizeof(v4)) &&
         Bindable(AF_INET6, reinterpret_cast<const sockaddr*>(&v6), sizeof(v6));
}

}  // namespace

Result<PortRange> StaticPorts(const std::string& ephemeral) {
  std::istringstream in(ephemeral);
  uint32_t low = 32768;
  uint32_t high = 60999;
  in >> low >> high;
  uint32_t below = low > kLowest ? low - kLowest : 0;
  uint32_t above = high < kHighest ? kHighest - high : 0;
  if (below == 0 && above == 0) {
    return Error::Unavailable("no port from 20000 on lies outside the ephemeral range " +
                              ephemeral + "; narrow net.ipv4.ip_local_port_range");
  }
  return below >= above ? PortRange{kLowest, low - 1} : PortRange{high + 1, kHighest};
}

Result<uint32_t> FindFreePorts(uint64_t start, uint32_t count) {
  std::ifstream file("/proc/sys/net/ipv4/ip_local_port_range");
  std::string text;
  std::getline(file, text);
  Result<PortRange> range = StaticPorts(text);
  if (!range.ok()) return range.error();
  const uint64_t size = range->last - range->first + 1;
  const uint64_t offset = start >= range->first ? start - range->first : start;
  uint32_t in_a_row = 0;
  for (uint64_t i = 0; i < std::min<uint64_t>(size, kMaxTries) + count - 1; ++i) {
    const auto port = static_cast<uint32_t>(range->first + (offset + i) % size);
    if (port == range->first) in_a_row = 0;
    in_a_row = IsFree(port) ? in_a_row + 1 : 0;
    if (in_a_row == count) return port - count + 1;
  }
  const std::string what =
      count == 1 ? "free port" : std::to_string(count) + " free ports in a row";
  return Error::Unavailable("no " + what + " from " + std::to_string(range->first) + " to " +
                            std::to_string(range->last));
}

Result<uint32_t> FindFreePort(uint64_t start) { return FindFreePorts(start, 1); }

uint32_t FirstTakenPort(uint32_t first, uint32_t count) {
  for (uint32_t port = first; port <= kHighest && port - first < count; ++port) {
    if (!IsFree(port)) return port;
  }
  return 0;
}

}  // namespace lockstep
