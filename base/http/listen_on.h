// ListenOn: a server listens on an address as people write it.
#ifndef LOCKSTEP_BASE_HTTP_LISTEN_ON_H_
#define LOCKSTEP_BASE_HTTP_LISTEN_ON_H_

#include <string>

#include "base/http/http_server.h"
#include "base/result.h"

namespace lockstep {

// "IP:PORT"; or "PORT": on all addresses of IPv6 and IPv4, and of IPv4 alone where the kernel has
// no IPv6. Conflict when the port is taken.
Status ListenOn(HttpServer* server, const std::string& address);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_HTTP_LISTEN_ON_H_
