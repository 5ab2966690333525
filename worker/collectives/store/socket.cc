#include "worker/collectives/store/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace lockstep::collectives {
namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

bool Parse(const std::string& text, uint16_t port, Address* out) {
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out->storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    out->size = sizeof *v4;
    return true;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out->storage);
  if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    out->size = sizeof *v6;
    return true;
  }
  return false;
}

std::string Host(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text);
  } else if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text);
  }
  return text;
}

// While nobody listens at a port of the ephemeral range, TCP may connect a socket on the same
// machine to itself.
bool IsSelf(int socket) {
  Address own;
  Address peer;
  own.size = peer.size = sizeof(sockaddr_storage);
  return getsockname(socket, own.get(), &own.size) == 0 &&
         getpeername(socket, peer.get(), &peer.size) == 0 && own.size == peer.size &&
         std::memcmp(&own.storage, &peer.storage, own.size) == 0;
}

int BindAnyway(int socket, Address address) {
  if (bind(socket, address.get(), address.size) == 0) return 0;
  if (errno != EADDRNOTAVAIL) return -1;
  if (address.storage.ss_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr.s_addr = htonl(INADDR_ANY);
  } else {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr = in6addr_any;
  }
  return bind(socket, address.get(), address.size);
}

}  // namespace

std::string AddressText(const std::string& address, uint16_t port) {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

bool IsAddress(const std::string& text) {
  Address unused;
  return Parse(text, 0, &unused);
}

Result<UniqueFd> ListenTcp(const std::string& address, uint16_t port, int backlog) {
  Address where;
  if (!Parse(address, port, &where)) return Error::Invalid("not an IP address: " + address);
  UniqueFd fd(socket(where.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (BindAnyway(fd.get(), where) != 0 || listen(fd.get(), backlog) != 0) {
    if (errno != EADDRINUSE) return ErrnoError("listening on " + AddressText(address, port), errno);
    return Error::Conflict("port " + AddressText(address, port) +
                           " is in use; end the process that holds it or set another MASTER_PORT");
  }
  return fd;
}

Result<UniqueFd> ConnectTcp(const std::string& address, uint16_t port, Time deadline) {
  Address where;
  if (!Parse(address, port, &where)) return Error::Invalid("not an IP address: " + address);
  UniqueFd fd(socket(where.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  SetTcpOptions(fd.get());
  int failed = connect(fd.get(), where.get(), where.size) == 0 ? 0 : errno;
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
  Address where;
  // Connecting a datagram socket sends nothing: it only asks the routing table.
  if (!Parse(address, 9, &where)) return Error::Invalid("not an IP address: " + address);
  const UniqueFd fd(socket(where.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return ErrnoError("socket", errno);
  if (connect(fd.get(), where.get(), where.size) != 0) {
    return ErrnoError("no route to " + address, errno);
  }
  Address local;
  local.size = sizeof local.storage;
  if (getsockname(fd.get(), local.get(), &local.size) != 0) return ErrnoError("getsockname", errno);
  return Host(local.get());
}

std::string InterfaceOf(const std::string& local_address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    if (one->ifa_addr != nullptr && Host(one->ifa_addr) == local_address) name = one->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

Result<std::string> AddressOf(const std::string& interface, const std::string& like) {
  Address wanted;
  if (!Parse(like, 0, &wanted)) return Error::Invalid("not an IP address: " + like);
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return ErrnoError("getifaddrs", errno);
  std::string address;
  for (const ifaddrs* one = all; one != nullptr && address.empty(); one = one->ifa_next) {
    if (one->ifa_addr == nullptr || interface != one->ifa_name) continue;
    // An IPv6 address that holds on one link only means nothing elsewhere.
    const bool here_only = Host(one->ifa_addr).rfind("fe80:", 0) == 0;
    if (one->ifa_addr->sa_family == wanted.storage.ss_family && !here_only) {
      address = Host(one->ifa_addr);
    }
  }
  freeifaddrs(all);
  if (!address.empty()) return address;
  return Error::Invalid("GLOO_SOCKET_IFNAME is \"" + interface +
                        "\", which is no interface here with an address like " + like);
}

int PollTimeout(Time now, Time deadline) {
  if (deadline <= now) return 0;
  if (deadline == kNever) return -1;
  const auto left = std::chrono::ceil<milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<int64_t>(left, std::numeric_limits<int>::max()));
}

}  // namespace lockstep::collectives
