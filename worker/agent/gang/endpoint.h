// An address and a port: IPv4 or IPv6, written as numbers. No name is looked up on the way to a
// running gang; pods get the coordinator's ClusterIP in their environment.
#ifndef LOCKSTEP_WORKER_AGENT_GANG_ENDPOINT_H_
#define LOCKSTEP_WORKER_AGENT_GANG_ENDPOINT_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace lockstep::agent {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  uint16_t port() const;
  std::string host() const;      // "10.0.0.7", "fd00::7"
  std::string ToString() const;  // "10.0.0.7:7070", "[fd00::7]:7070"
};

// Invalid when `host` is not an IP address.
Result<Endpoint> MakeEndpoint(std::string_view host, uint16_t port);
// "10.0.0.7:7070" or "[fd00::7]:7070".
Result<Endpoint> ParseEndpoint(std::string_view text);

// A listening, non-blocking TCP socket. Port 0 takes a free one: see LocalEndpoint. An IPv6
// wildcard takes IPv4 too. Conflict when the port is in use.
Result<UniqueFd> ListenTcp(const Endpoint& endpoint, int backlog);
Result<Endpoint> LocalEndpoint(int socket);

// A non-blocking TCP socket whose connect() is under way.
Result<UniqueFd> ConnectTcp(const Endpoint& endpoint);

// No Nagle; a peer that vanished is noticed in about 25 s even when nothing is sent.
void SetTcpOptions(int socket);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_ENDPOINT_H_
