#include "worker/agent/evidence/nccl_ras.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/net/tcp.h"
#include "base/text/ascii.h"
#include "base/unique_fd.h"
#include "worker/agent/evidence/process_environment.h"
#include "worker/topology/small_file.h"

namespace lockstep::agent {
namespace {

constexpr uint16_t kDefaultPort = 28028;
constexpr int kServersPatience = 1;  // seconds; for processes that don't answer it

// Of sockets that listen at `port`, in text such as /proc/net/tcp.
std::set<std::string> ListenersAt(uint16_t port, const std::string& table) {
  std::set<std::string> inodes;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string number, local, remote, state, skip, inode;
    fields >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skip;
    fields >> inode;
    const size_t colon = local.rfind(':');
    if (!fields || state != "0A" || colon == std::string::npos) continue;
    uint16_t its = 0;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), its, 16);
    if (its == port) inodes.insert("socket:[" + inode + "]");
  }
  return inodes;
}

bool Holds(pid_t pid, const std::set<std::string>& sockets) {
  if (sockets.empty()) return false;
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), &closedir);
  if (!dir) return false;
  while (const dirent* entry = readdir(dir.get())) {
    std::array<char, 64> target;
    const ssize_t size =
        readlink((folder + "/" + entry->d_name).c_str(), target.data(), target.size());
    if (size > 0 && sockets.contains(std::string(target.data(), static_cast<size_t>(size)))) {
      return true;
    }
  }
  return false;
}

// Where this process listens for clients of RAS.
std::optional<Endpoint> AddressOf(pid_t pid) {
  const std::string named = ProcessEnvironment(pid).FirstOf({"NCCL_RAS_ADDR"});
  const size_t colon = named.rfind(':');
  const auto port = ParseNumber<uint16_t>(
      colon == std::string::npos ? std::string_view() : std::string_view(named).substr(colon + 1));
  if (!named.empty() && !port) return std::nullopt;
  for (const auto& [table, host] : {std::pair("tcp", "127.0.0.1"), std::pair("tcp6", "::1")}) {
    const std::string path = "/proc/" + std::to_string(pid) + "/net/" + table;
    const auto text = topology::ReadSmallFile(path);
    if (!text || !Holds(pid, ListenersAt(port.value_or(kDefaultPort), *text))) continue;
    Result<Endpoint> address = ParseEndpoint(named);
    if (!address.ok()) address = MakeEndpoint(host, port.value_or(kDefaultPort));
    if (address.ok()) return *address;
  }
  return std::nullopt;
}

bool WaitFor(int fd, short events, Time until) {
  pollfd wait{fd, events, 0};
  const auto left = (until - BootTime()) / milliseconds(1);
  return left > 0 && poll(&wait, 1, static_cast<int>(left)) == 1;
}

bool Send(int fd, std::string_view line, Time until) {
  return WaitFor(fd, POLLOUT, until) &&
         send(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
             static_cast<ssize_t>(line.size());
}

// Appends until a line, or without `one_line` the connection, ends; false: it did not in time, or
// what came is more than is kept.
bool Receive(int fd, bool one_line, Time until, std::string& text) {
  std::array<char, 4096> buffer;
  while (text.size() < kMaxRas) {
    if (one_line && text.ends_with('\n')) return true;
    if (!WaitFor(fd, POLLIN, until)) return false;
    const size_t room = std::min(buffer.size(), kMaxRas - text.size());
    const ssize_t got = recv(fd, buffer.data(), room, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) return !one_line && got == 0;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return false;
}

// Whether the question is answered by a line that begins with `wanted`.
bool Asks(int fd, const std::string& question, std::string_view wanted, Time until) {
  std::string answer;
  return Send(fd, question, until) && Receive(fd, true, until, answer) &&
         answer.starts_with(wanted);
}

std::string Ask(const Endpoint& address, Time until) {
  const std::string where = "NCCL's RAS at " + address.ToString();
  const Result<UniqueFd> fd = ConnectTcp(address);
  // Of a server that is newer it is told all the same: the questions are those of the first.
  if (!fd.ok() || !Asks(fd->get(), "CLIENT PROTOCOL 2\n", "SERVER PROTOCOL", until) ||
      !Asks(fd->get(), "TIMEOUT " + std::to_string(kServersPatience) + "\n", "OK", until) ||
      !Send(fd->get(), "VERBOSE STATUS\n", until)) {
    return where + " does not answer as such\n";
  }
  std::string text;
  const bool whole = Receive(fd->get(), false, until, text);
  return where + ":\n" + text + (whole ? "" : "\n(there was more, or it came too late)\n");
}

}  // namespace

std::string AskNcclRas(const std::vector<RankProcess>& ranks, Time until) {
  for (const RankProcess& rank : ranks) {
    for (const pid_t pid : ProcessesOf(rank)) {
      if (const auto address = AddressOf(pid)) return Ask(*address, until);
    }
  }
  return "";
}

}  // namespace lockstep::agent
