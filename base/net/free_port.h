// TCP ports to listen on. They lie outside the ephemeral range, where any outgoing connection may
// take a port between its being found free and its being listened on.
#ifndef LOCKSTEP_BASE_NET_FREE_PORT_H_
#define LOCKSTEP_BASE_NET_FREE_PORT_H_

#include <cstdint>
#include <string>

#include "base/result.h"

namespace lockstep {

struct PortRange {
  uint32_t first = 0;
  uint32_t last = 0;
};

// Where ports may be taken without getting in the way of outgoing connections: 1024..65535 less
// the range that stands in /proc/sys/net/ipv4/ip_local_port_range (`ephemeral`: that file's text).
// The larger part of what is left; Invalid if nothing is.
Result<PortRange> StaticPorts(const std::string& ephemeral);

// The first of `count` TCP ports in a row on which nothing listens on any address of this machine,
// found from `start` on: a port of the range, or any number, which is folded into it. Unavailable
// if there are none.
Result<uint32_t> FindFreePorts(uint64_t start, uint32_t count);
Result<uint32_t> FindFreePort(uint64_t start);

// The first of these ports on which something listens on some address of this machine; 0: none.
uint32_t FirstTakenPort(uint32_t first, uint32_t count);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_NET_FREE_PORT_H_
