#include "base/http/listen_on.h"

#include <cstdint>
#include <optional>

#include "base/text/ascii.h"
#include "base/text/endpoint.h"

namespace lockstep {

Status ListenOn(HttpServer* server, const std::string& address) {
  if (const std::optional<uint16_t> port = ParseNumber<uint16_t>(address)) {
    Status listens = server->Listen(*MakeEndpoint("::", *port));
    if (listens.ok() || listens.error().kind == ErrorKind::kConflict) return listens;
    return server->Listen(*MakeEndpoint("0.0.0.0", *port));
  }
  const Result<Endpoint> endpoint = ParseEndpoint(address);
  if (!endpoint.ok()) return endpoint.error();
  return server->Listen(*endpoint);
}

}  // namespace lockstep
