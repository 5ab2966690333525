#include "worker/agent/processes/connections.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <tuple>

#include "base/text/ascii.h"

namespace lockstep::agent {
namespace {

// Of the kernel, in include/net/tcp_states.h.
constexpr unsigned kEstablished = 1;
constexpr unsigned kSynSent = 2;
constexpr unsigned kSynReceived = 3;
constexpr unsigned kListen = 10;

constexpr std::string_view kMappedV4 = "0000000000000000FFFF0000";

std::optional<unsigned> Hex(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string Unmapped(std::string_view address) {
  if (address.starts_with(kMappedV4)) address.remove_prefix(kMappedV4.size());
  return std::string(address);
}

// "0100007F:1F90"
bool ReadEnd(std::string_view text, std::string* address, uint16_t* port) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::optional<unsigned> number = Hex(text.substr(colon + 1));
  if (!number) return false;
  *address = Unmapped(text.substr(0, colon));
  *port = static_cast<uint16_t>(*number);
  return true;
}

}  // namespace

std::string KernelAddress(const Endpoint& endpoint) {
  std::array<char, 33> text{};
  if (endpoint.address.ss_family == AF_INET6) {
    const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(endpoint.get())->sin6_addr;
    for (size_t i = 0; i < 4; ++i) {
      std::snprintf(text.data() + 8 * i, 9, "%08X", six.s6_addr32[i]);
    }
  } else {
    const in_addr& four = reinterpret_cast<const sockaddr_in*>(endpoint.get())->sin_addr;
    std::snprintf(text.data(), 9, "%08X", four.s_addr);
  }
  return Unmapped(text.data());
}

std::vector<TcpConnection> ParseConnections(std::string_view text) {
  std::vector<TcpConnection> connections;
  std::istringstream lines{std::string(text)};
  std::string line;
  std::getline(lines, line);  // the columns' names
  while (std::getline(lines, line)) {
    std::istringstream columns(line);
    const std::vector<std::string> words{std::istream_iterator<std::string>(columns), {}};
    constexpr size_t kInode = 9;
    if (words.size() <= kInode) continue;
    const std::optional<unsigned> state = Hex(words[3]);
    if (!state || *state == kListen || *state == kSynSent || *state == kSynReceived) continue;
    TcpConnection connection;
    if (!ReadEnd(words[1], &connection.local, &connection.local_port) ||
        !ReadEnd(words[2], &connection.remote, &connection.remote_port)) {
      continue;
    }
    connection.inode = ParseNumber<uint64_t>(words[kInode]).value_or(0);
    connection.established = *state == kEstablished;
    connections.push_back(std::move(connection));
  }
  return connections;
}

std::vector<TcpConnection> ReadConnections() {
  std::vector<TcpConnection> all;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::ranges::move(ParseConnections(text), std::back_inserter(all));
  }
  return all;
}

std::vector<uint64_t> SocketsOf(pid_t pid) {
  constexpr std::string_view kPrefix = "socket:[";
  std::vector<uint64_t> inodes;
  std::error_code error;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry->path(), gone).string();
    if (gone || !target.starts_with(kPrefix)) continue;
    const auto inode = ParseNumber<uint64_t>(
        std::string_view(target).substr(kPrefix.size(), target.size() - kPrefix.size() - 1));
    if (inode) inodes.push_back(*inode);
  }
  return inodes;
}

bool AnyAt(const std::vector<TcpConnection>& connections, const Endpoint& endpoint) {
  const std::string address = KernelAddress(endpoint);
  const uint16_t port = endpoint.port();
  return std::ranges::any_of(connections, [&](const TcpConnection& each) {
    return (each.local_port == port && each.local == address) ||
           (each.remote_port == port && each.remote == address);
  });
}

bool AnyBetween(const std::vector<TcpConnection>& connections,
                const std::map<uint64_t, uint32_t>& owners, const std::set<std::string>& machines) {
  using Ends = std::tuple<std::string_view, uint16_t, std::string_view, uint16_t>;
  std::map<Ends, uint64_t> inodes;
  for (const TcpConnection& each : connections) {
    inodes[{each.local, each.local_port, each.remote, each.remote_port}] = each.inode;
  }
  return std::ranges::any_of(connections, [&](const TcpConnection& each) {
    const auto owner = owners.find(each.inode);
    if (!each.established || owner == owners.end()) return false;
    const auto other = inodes.find({each.remote, each.remote_port, each.local, each.local_port});
    if (other == inodes.end()) return machines.contains(each.remote);
    const auto its = owners.find(other->second);
    return its == owners.end() || its->second != owner->second;
  });
}

}  // namespace lockstep::agent
