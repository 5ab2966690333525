#include "base/net/route.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

#include "base/net/tcp.h"
#include "base/text/endpoint.h"
#include "base/unique_fd.h"

namespace lockstep {
namespace {

constexpr uint16_t kAnyPort = 9;  // none is spoken to

}  // namespace

Result<std::string> OwnAddressTowards(const std::string& host) {
  Result<Endpoint> there = MakeEndpoint(host, kAnyPort);
  if (!there.ok()) return there.error();
  const UniqueFd fd(socket(there->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || connect(fd.get(), there->get(), there->size) != 0) {
    return ErrnoError("no address of this computer leads to " + host, errno);
  }
  const Result<Endpoint> here = LocalEndpoint(fd.get());
  if (!here.ok()) return here.error();
  return here->host();
}

bool IsLoopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

}  // namespace lockstep
