// TCP sockets by IP address. No name is looked up: pods get the coordinator's ClusterIP in their
// environment.
#ifndef LOCKSTEP_BASE_NET_TCP_H_
#define LOCKSTEP_BASE_NET_TCP_H_

#include "base/result.h"
#include "base/text/endpoint.h"
#include "base/unique_fd.h"

namespace lockstep {

// A listening, non-blocking TCP socket. Port 0 takes a free one: see LocalEndpoint. An IPv6
// wildcard takes IPv4 too. Conflict when the port is in use.
Result<UniqueFd> ListenTcp(const Endpoint& endpoint, int backlog);
Result<Endpoint> LocalEndpoint(int socket);

// A non-blocking TCP socket whose connect() is under way.
Result<UniqueFd> ConnectTcp(const Endpoint& endpoint);

// No Nagle; a peer that vanished is noticed in about 25 s even when nothing is sent.
void SetTcpOptions(int socket);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_NET_TCP_H_
