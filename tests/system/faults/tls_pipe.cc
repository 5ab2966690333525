// lockstep-tls-pipe IP:PORT IDENTITY: a TLS connection with a job's key as a pair of pipes, for
// tests that speak to an agent byte by byte. The key comes as the first line of stdin, 64
// hexadecimal digits; all after it goes to the peer, and what the peer says goes to stdout.
//
// Exit codes: 0 the peer closed, 1 no connection, 2 the handshake or the stream failed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/crypto/tls_psk.h"

namespace {

using lockstep::Key;
using lockstep::Result;
using lockstep::TlsPskContext;
using lockstep::TlsSession;

bool ReadKey(Key* key) {
  std::array<char, 2 * lockstep::kKeySize + 1> line{};
  for (char& c : line) {
    if (read(STDIN_FILENO, &c, 1) != 1) return false;
  }
  for (size_t i = 0; i < key->size(); ++i) {
    const std::string digits(&line.at(2 * i), 2);
    (*key)[i] = static_cast<uint8_t>(std::strtoul(digits.c_str(), nullptr, 16));
  }
  return line.back() == '\n';
}

int Connect(const std::string& address) {
  const size_t colon = address.rfind(':');
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  if (colon == std::string::npos) return -1;
  peer.sin_port = htons(static_cast<uint16_t>(std::strtoul(&address[colon + 1], nullptr, 10)));
  if (inet_pton(AF_INET, address.substr(0, colon).c_str(), &peer.sin_addr) != 1) return -1;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&peer), sizeof peer) != 0) return -1;
  return fd;
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = write(fd, bytes.data(), bytes.size());
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool Flush(int fd, TlsSession* session) {
  const std::string_view out = session->output();
  const size_t size = out.size();
  if (!WriteAll(fd, out)) return false;
  session->ConsumeOutput(size);
  return true;
}

int Pump(int fd, TlsSession* session) {
  std::array<char, 65536> buffer{};
  for (;;) {
    if (!Flush(fd, session)) return 2;
    // What is written before the handshake is over waits in the pipe.
    std::array<pollfd, 2> fds = {pollfd{fd, POLLIN, 0},
                                 pollfd{session->established() ? STDIN_FILENO : -1, POLLIN, 0}};
    if (poll(fds.data(), fds.size(), -1) < 0) return 2;
    if (fds[1].revents != 0) {
      const ssize_t got = read(STDIN_FILENO, buffer.data(), buffer.size());
      if (got <= 0) return 0;
      if (!session->Send({buffer.data(), static_cast<size_t>(got)}).ok()) return 2;
    }
    if (fds[0].revents != 0) {
      const ssize_t got = read(fd, buffer.data(), buffer.size());
      if (got <= 0) return got == 0 ? 0 : 2;
      std::string plain;
      const lockstep::Status received =
          session->Receive({buffer.data(), static_cast<size_t>(got)}, &plain);
      if (!WriteAll(STDOUT_FILENO, plain)) return 0;
      if (!received.ok()) {
        std::fprintf(stderr, "%s\n", received.error().message.c_str());
        Flush(fd, session);
        return 2;
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Key key{};
  if (argc != 3 || !ReadKey(&key)) {
    std::fputs("usage: lockstep-tls-pipe IP:PORT IDENTITY, the key on stdin\n", stderr);
    return 2;
  }
  const Result<TlsPskContext> context = TlsPskContext::Client(key, argv[2]);
  if (!context.ok()) return 2;
  const int fd = Connect(argv[1]);
  if (fd < 0) return 1;
  Result<TlsSession> session = context->NewSession();
  return session.ok() ? Pump(fd, &*session) : 2;
}
