#include "base/text/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

#include "base/text/ascii.h"

namespace lockstep {
namespace {

template <typename T>
Endpoint FromSockaddr(const T& address) {
  Endpoint endpoint;
  std::memcpy(&endpoint.address, &address, sizeof address);
  endpoint.size = sizeof address;
  return endpoint;
}

}  // namespace

uint16_t Endpoint::port() const {
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::string Endpoint::host() const { return HostOf(get()); }

std::string Endpoint::ToString() const { return EndpointText(host(), port()); }

Result<Endpoint> MakeEndpoint(std::string_view host, uint16_t port) {
  const std::string text(host);
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) return FromSockaddr(v4);
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) return FromSockaddr(v6);
  return Error::Invalid("\"" + text + "\" is not an IP address: names are not resolved");
}

Result<Endpoint> ParseEndpoint(std::string_view text) {
  const Error invalid = Error::Invalid(
      "\"" + std::string(text) + "\": write ADDRESS:PORT, as 10.0.0.7:7070 or [fd00::7]:7070");
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid;
  std::string_view host = text.substr(0, colon);
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  if (brackets) host = host.substr(1, host.size() - 2);
  if (brackets != (host.find(':') != std::string_view::npos)) return invalid;
  const auto port = ParseNumber<uint16_t>(text.substr(colon + 1));
  return port ? MakeEndpoint(host, *port) : invalid;
}

std::string EndpointText(std::string_view host, uint16_t port) {
  const std::string text(host);
  return (text.find(':') != std::string::npos ? "[" + text + "]:" : text + ":") +
         std::to_string(port);
}

std::string HostOf(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  }
  return text.data();
}

}  // namespace lockstep
