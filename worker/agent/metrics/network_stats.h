// What the kernel counts of a machine's network: bytes by interface, and by port of its RDMA
// adapters, whose traffic passes the interfaces by. Of the network namespace this process is in.
#ifndef LOCKSTEP_WORKER_AGENT_METRICS_NETWORK_STATS_H_
#define LOCKSTEP_WORKER_AGENT_METRICS_NETWORK_STATS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::agent {

struct LinkBytes {
  std::string name;  // "eth0"; of a port "mlx5_0/1"
  uint64_t received = 0;
  uint64_t sent = 0;
  bool counts = true;  // in a sum: false where others count the same bytes, too
};

struct NetworkStats {
  std::vector<LinkBytes> interfaces;  // without the loopback; at most kMaxLinks
  std::vector<LinkBytes> rdma_ports;  // likewise

  uint64_t received() const;
  uint64_t sent() const;
};

inline constexpr size_t kMaxLinks = 64;  // a node may have an interface for each of its pods

// Reads proc/ and sys/ below `root`. What is missing or makes no sense is left out.
NetworkStats ReadNetworkStats(const std::string& root = "");

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_METRICS_NETWORK_STATS_H_
