#include "base/net/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

namespace lockstep {
namespace {

void SetOption(int socket, int level, int name, int value) {
  // Best effort: a kernel without one of them still carries the connection.
  setsockopt(socket, level, name, &value, sizeof value);
}

}  // namespace

Result<UniqueFd> ListenTcp(const Endpoint& endpoint, int backlog) {
  UniqueFd fd(
      socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd.valid()) return ErrnoError("socket", errno);
  SetOption(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (endpoint.address.ss_family == AF_INET6) SetOption(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd.get(), endpoint.get(), endpoint.size) != 0 || listen(fd.get(), backlog) != 0) {
    if (errno == EADDRINUSE) {
      return Error::Conflict(endpoint.ToString() + " is in use by another process");
    }
    return ErrnoError("listen on " + endpoint.ToString(), errno);
  }
  return fd;
}

Result<Endpoint> LocalEndpoint(int socket) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.address;
  if (getsockname(socket, endpoint.get(), &endpoint.size) != 0) {
    return ErrnoError("getsockname", errno);
  }
  return endpoint;
}

Result<UniqueFd> ConnectTcp(const Endpoint& endpoint) {
  UniqueFd fd(
      socket(endpoint.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (!fd.valid()) return ErrnoError("socket", errno);
  if (connect(fd.get(), endpoint.get(), endpoint.size) != 0 && errno != EINPROGRESS) {
    const std::string why = std::strerror(errno);
    return Error::Unavailable("connect to " + endpoint.ToString() + ": " + why);
  }
  return fd;
}

void SetTcpOptions(int socket) {
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 25'000);
}

}  // namespace lockstep
