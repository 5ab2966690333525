// The TCP connections of this network namespace, as /proc/net shows them, and whether some of them
// lead from one rank to another. Pure but for ReadConnections and SocketsOf.
#ifndef LOCKSTEP_WORKER_AGENT_PROCESSES_CONNECTIONS_H_
#define LOCKSTEP_WORKER_AGENT_PROCESSES_CONNECTIONS_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/endpoint.h"

namespace lockstep::agent {

// An address as the kernel writes it, "0100007F"; of IPv4 over IPv6 the IPv4 one.
std::string KernelAddress(const Endpoint& endpoint);

struct TcpConnection {
  std::string local;  // KernelAddress
  std::string remote;
  uint16_t local_port = 0;
  uint16_t remote_port = 0;
  uint64_t inode = 0;  // 0: no process has it any more
  bool established = false;

  friend bool operator==(const TcpConnection&, const TcpConnection&) = default;
};

// Of the text of /proc/net/tcp or tcp6, without listeners and connections that nobody answered.
std::vector<TcpConnection> ParseConnections(std::string_view text);
std::vector<TcpConnection> ReadConnections();

// The inodes of the sockets that a process holds.
std::vector<uint64_t> SocketsOf(pid_t pid);

// Whether a connection begins or ends at `endpoint`.
bool AnyAt(const std::vector<TcpConnection>& connections, const Endpoint& endpoint);

// Whether a rank of this machine is connected to another process of this computer that is not the
// rank's own, or to another machine. `owners`: by inode the rank whose processes have the socket;
// `machines`: the KernelAddress of each other machine.
bool AnyBetween(const std::vector<TcpConnection>& connections,
                const std::map<uint64_t, uint32_t>& owners, const std::set<std::string>& machines);

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_PROCESSES_CONNECTIONS_H_
