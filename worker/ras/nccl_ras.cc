#include "worker/ras/nccl_ras.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/net/tcp.h"
#include "base/text/ascii.h"
#include "base/unique_fd.h"

namespace lockstep::ras {
namespace {

constexpr uint16_t kDefaultPort = 28028;
constexpr int kServersPatience = 1;  // seconds; for processes that don't answer it
// The port may be shared with a process that is stopped: another connection may reach another one.
constexpr Duration kGreetingPatience = milliseconds(300);
constexpr size_t kMaxTable = size_t{16} << 20;

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
  while (text.size() < kMaxAnswer) {
    if (one_line && text.ends_with('\n')) return true;
    if (!WaitFor(fd, POLLIN, until)) return false;
    const size_t room = std::min(buffer.size(), kMaxAnswer - text.size());
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

enum class Greeting : uint8_t { kAnswered, kSilent, kNotRas };

Greeting Greet(int fd, Time until) {
  // Of a server that is newer it is told all the same: the questions are those of the first.
  std::string answer;
  const Time patience = std::min(until, BootTime() + kGreetingPatience);
  if (!Send(fd, "CLIENT PROTOCOL 2\n", patience)) return Greeting::kSilent;
  if (Receive(fd, true, patience, answer) && answer.starts_with("SERVER PROTOCOL")) {
    return Greeting::kAnswered;
  }
  return answer.empty() ? Greeting::kSilent : Greeting::kNotRas;
}

}  // namespace

std::optional<Endpoint> ListenerOf(pid_t pid, const std::string& named) {
  const size_t colon = named.rfind(':');
  const auto port = ParseNumber<uint16_t>(
      colon == std::string::npos ? std::string_view() : std::string_view(named).substr(colon + 1));
  if (!named.empty() && !port) return std::nullopt;
  for (const auto& [table, host] : {std::pair("tcp", "127.0.0.1"), std::pair("tcp6", "::1")}) {
    const std::string path = "/proc/" + std::to_string(pid) + "/net/" + table;
    const Result<std::string> text = ReadFile(path, kMaxTable);
    if (!text.ok() || !Holds(pid, ListenersAt(port.value_or(kDefaultPort), *text))) continue;
    Result<Endpoint> address = ParseEndpoint(named);
    if (!address.ok()) address = MakeEndpoint(host, port.value_or(kDefaultPort));
    if (address.ok()) return *address;
  }
  return std::nullopt;
}

std::optional<Answer> Ask(const Endpoint& address, Time until) {
  UniqueFd socket;
  Greeting greeting = Greeting::kSilent;
  while (greeting == Greeting::kSilent && BootTime() < until) {
    Result<UniqueFd> fd = ConnectTcp(address);
    if (!fd.ok()) return std::nullopt;
    socket = std::move(*fd);
    const Time began = BootTime();
    greeting = Greet(socket.get(), until);
    // Refused, or ended without a word: whoever comes again at once gets the same.
    if (greeting == Greeting::kSilent && BootTime() < began + kGreetingPatience / 2) break;
  }
  if (greeting != Greeting::kAnswered ||
      !Asks(socket.get(), "TIMEOUT " + std::to_string(kServersPatience) + "\n", "OK", until) ||
      !Send(socket.get(), "VERBOSE STATUS\n", until)) {
    return std::nullopt;
  }
  Answer told;
  told.whole = Receive(socket.get(), false, until, told.text);
  return told;
}

std::string Findings(std::string_view text) {
  std::string findings;
  bool in_section = false;
  bool complete = false;
  while (!text.empty() && findings.size() < kMaxFindings) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line == "Errors" || line == "Warnings") {
      in_section = true;
      complete = complete || line == "Warnings";
    }
    // Details are indented below their title, which has a communicator's number that says nothing.
    if (!in_section || !line.starts_with("  ")) continue;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.empty()) findings.append(findings.empty() ? "" : ", ").append(line);
  }
  if (findings.empty()) {
    return complete ? "no process is dead or missing, and all ranks launched the same" : "";
  }
  findings.resize(std::min(findings.size(), kMaxFindings));
  for (char& c : findings) {
    if (c < ' ' || c > '~') c = '?';
  }
  return findings;
}

}  // namespace lockstep::ras
