#include "worker/agent/metrics/network_stats.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <sstream>

#include "base/folder.h"
#include "base/text/ascii.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

using topology::ReadSmallFile;

constexpr uint64_t kPortWord = 4;          // port_rcv_data and port_xmit_data count in words
constexpr const char* kInfiniband = "32";  // of sys/class/net/NAME/type (if_arp.h)

std::optional<uint64_t> CounterOf(const std::string& path) {
  const std::optional<std::string> text = ReadSmallFile(path);
  return text ? ParseNumber<uint64_t>(*text) : std::nullopt;
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  ForEachEntry(folder, [&names](const std::filesystem::directory_entry& entry) {
    names.push_back(entry.path().filename().string());
  });
  std::ranges::sort(names);
  return names;
}

// Two lines of heads, then "  eth0: 123 4 0 0 0 0 0 0 456 ...": the first and the ninth figure.
std::vector<LinkBytes> ReadInterfaces(const std::string& root) {
  std::vector<LinkBytes> found;
  std::istringstream lines(ReadSmallFile(root + "/proc/net/dev").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    LinkBytes link;
    std::istringstream(line.substr(0, colon)) >> link.name;
    std::istringstream figures(line.substr(colon + 1));
    uint64_t between = 0;
    bool good = static_cast<bool>(figures >> link.received);
    for (int i = 0; i < 7 && good; ++i) good = static_cast<bool>(figures >> between);
    good = good && static_cast<bool>(figures >> link.sent);
    if (good && link.name != "lo" && found.size() < kMaxLinks) found.push_back(std::move(link));
  }
  return found;
}

std::vector<LinkBytes> ReadRdmaPorts(const std::string& root) {
  std::vector<LinkBytes> found;
  const std::string adapters = root + "/sys/class/infiniband";
  for (const std::string& adapter : NamesIn(adapters)) {
    const std::filesystem::path ports = std::filesystem::path(adapters) / adapter / "ports";
    for (const std::string& port : NamesIn(ports.string())) {
      const std::filesystem::path counters = ports / port / "counters";
      const auto received = CounterOf((counters / "port_rcv_data").string());
      const auto sent = CounterOf((counters / "port_xmit_data").string());
      if (!received || !sent || found.size() == kMaxLinks) continue;
      found.push_back({(std::filesystem::path(adapter) / port).string(), *received * kPortWord,
                       *sent * kPortWord});
    }
  }
  return found;
}

// On a node, a bridge and the pods' ends count what its adapters have counted; in a pod there is no
// adapter. IP over InfiniBand passes the ports.
void LeaveOutTheDoubled(const std::string& root, NetworkStats* stats) {
  std::error_code error;
  const auto file_of = [&root](const LinkBytes& link, const char* name) {
    return root + "/sys/class/net/" + link.name + "/" + name;
  };
  const auto is_adapter = [&](const LinkBytes& link) {
    return std::filesystem::exists(file_of(link, "device"), error);
  };
  const bool some = std::ranges::any_of(stats->interfaces, is_adapter);
  for (LinkBytes& link : stats->interfaces) {
    const std::string type = ReadSmallFile(file_of(link, "type")).value_or("");
    const bool of_port = !stats->rdma_ports.empty() && type == kInfiniband;
    link.counts = !of_port && (!some || is_adapter(link));
  }
}

uint64_t Sum(const NetworkStats& stats, uint64_t LinkBytes::* bytes) {
  uint64_t sum = 0;
  for (const auto* links : {&stats.interfaces, &stats.rdma_ports}) {
    for (const LinkBytes& link : *links) sum += link.counts ? link.*bytes : 0;
  }
  return sum;
}

}  // namespace

uint64_t NetworkStats::received() const { return Sum(*this, &LinkBytes::received); }
uint64_t NetworkStats::sent() const { return Sum(*this, &LinkBytes::sent); }

NetworkStats ReadNetworkStats(const std::string& root) {
  NetworkStats stats;
  stats.interfaces = ReadInterfaces(root);
  stats.rdma_ports = ReadRdmaPorts(root);
  LeaveOutTheDoubled(root, &stats);
  return stats;
}

}  // namespace lockstep::agent
