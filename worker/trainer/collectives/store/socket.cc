#include "worker/trainer/collectives/store/socket.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/text/endpoint.h"

namespace lockstep::collectives {
namespace {

// While nobody listens at a port of the ephemeral range, TCP may connect a socket on the same
// machine to itself.
bool IsSelf(int socket) {
  Endpoint own;
  Endpoint peer;
  own.size = peer.size = sizeof(sockaddr_storage);
  return getsockname(socket, own.get(), &own.size) == 0 &&
         getpeername(socket, peer.get(), &peer.size) == 0 && own.size == peer.size &&
         std::memcmp(&own.address, &peer.address, own.size) == 0;
}

int BindAnyway(int socket, Endpoint endpoint) {
  if (bind(socket, endpoint.get(), endpoint.size) == 0) return 0;
  if (errno != EADDRNOTAVAIL) return -1;
  if (endpoint.address.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&endpoint.address)->sin_addr.s_addr = htonl(INADDR_ANY);
  } else {
    reinterpret_cast<sockaddr_in6*>(&endpoint.address)->sin6_addr = in6addr_any;
  }
  return bind(socket, endpoint.get(), endpoint.size);
}

}  // namespace

std::string AddressText(const std::string& address, uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

bool IsAddress(const std::string& text) { return MakeEndpoint(text, 0).ok(); }

Result<UniqueFd> ListenTcp(const std::string& address, uint16_t port, int backlog) {
  Result<Endpoint> where = MakeEndpoint(address, port);
  if (!where.ok()) return where.error();
  UniqueFd fd(socket(where->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (BindAnyway(fd.get(), *where) != 0 || listen(fd.get(), backlog) != 0) {
    if (errno != EADDRINUSE) return ErrnoError("listening on " + AddressText(address, port), errno);
    return Error::Conflict("port " + AddressText(address, port) +
                           " is in use; end the process that holds it or set another MASTER_PORT");
  }
  return fd;
}

Result<UniqueFd> ConnectTcp(const std::string& address, uint16_t port, Time deadline) {
  Result<Endpoint> where = MakeEndpoint(address, port);
  if (!where.ok()) return where.error();
  UniqueFd fd(socket(where->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  SetTcpOptions(fd.get());
  int failed = connect(fd.get(), where->get(), where->size) == 0 ? 0 : errno;
  if (failed == EINPROGRESS) {
    pollfd ready{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, PollTimeout(BootTime(), deadline)) != 1) {
      return Error::Unavailable(AddressText(address, port) + " did not answer");
    }
    socklen_t size = sizeof failed;
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failed, &size);
  }
  if (failed != 0)
    return Error::Unavailable(AddressText(address, port) + ": " + std::strerror(failed));
  if (IsSelf(fd.get())) return Error::Unavailable(AddressText(address, port) + " is not open yet");
  return fd;
}

void SetTcpOptions(int socket) {
  const auto set = [socket](int level, int name, int value) {
    setsockopt(socket, level, name, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 15'000);
}

Result<std::string> LocalAddressTowards(const std::string& address) {
  // Connecting a datagram socket sends nothing: it only asks the routing table.
  Result<Endpoint> where = MakeEndpoint(address, 9);
  if (!where.ok()) return where.error();
  const UniqueFd fd(socket(where->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  if (connect(fd.get(), where->get(), where->size) != 0) {
    return ErrnoError("no route to " + address, errno);
  }
  Endpoint local;
  local.size = sizeof local.address;
  if (getsockname(fd.get(), local.get(), &local.size) != 0) return ErrnoError("getsockname", errno);
  return local.host();
}

std::string InterfaceOf(const std::string& local_address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    if (one->ifa_addr != nullptr && HostOf(one->ifa_addr) == local_address) name = one->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

Result<std::string> AddressOf(const std::string& interface, const std::string& like) {
  const Result<Endpoint> wanted = MakeEndpoint(like, 0);
  if (!wanted.ok()) return wanted.error();
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return ErrnoError("getifaddrs", errno);
  std::string address;
  for (const ifaddrs* one = all; one != nullptr && address.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || interface != one->ifa_name) continue;
    // An IPv6 address that holds on one link only means nothing elsewhere.
    const bool here_only = HostOf(one->ifa_addr).rfind("fe80:", 0) == 0;
    if (one->ifa_addr->sa_family == wanted->address.ss_family && !here_only) {
      address = HostOf(one->ifa_addr);
    }
  }
  freeifaddrs(all);
  if (!address.empty()) return address;
  return Error::Invalid("GLOO_SOCKET_IFNAME is \"" + interface +
                        "\", which is not an interface here with an address like " + like);
}

int PollTimeout(Time now, Time deadline) {
  if (deadline <= now) return 0;
  if (deadline == kNever) return -1;
  const auto left = std::chrono::ceil<milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
}

}  // namespace lockstep::collectives
