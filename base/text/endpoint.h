// Endpoint: an IP address, v4 or v6, and a port, as the system calls take them. Names are not
// looked up. Pure.
#ifndef LOCKSTEP_BASE_TEXT_ENDPOINT_H_
#define LOCKSTEP_BASE_TEXT_ENDPOINT_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
  uint16_t port() const;
  std::string host() const;      // "10.0.0.7", "fd00::7"
  std::string ToString() const;  // "10.0.0.7:7070", "[fd00::7]:7070"
};

// Invalid when `host` is not an IP address.
Result<Endpoint> MakeEndpoint(std::string_view host, uint16_t port);
// "10.0.0.7:7070" or "[fd00::7]:7070".
Result<Endpoint> ParseEndpoint(std::string_view text);
// The text that ParseEndpoint reads, of an address and a port that nobody has checked.
std::string EndpointText(std::string_view host, uint16_t port);

// "10.0.0.7", "fd00::7"; empty for another family.
std::string HostOf(const sockaddr* address);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_TEXT_ENDPOINT_H_
