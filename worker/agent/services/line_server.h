// LineServer: a listening socket on which this machine's processes say lines and are answered. Its
// owner knows what the lines mean.
//
// Bounded: connections, bytes of a line, bytes of answers that a client doesn't read, 64 KiB read
// from one connection in a round, so that a process that floods it delays no heartbeat. A line that
// the owner can't take closes its connection, and the log says why. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_LINE_SERVER_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_LINE_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/loop/event_loop.h"
#include "base/net/acceptor.h"
#include "base/result.h"
#include "base/text/line_buffer.h"
#include "base/unique_fd.h"
#include "worker/agent/logs/log.h"

namespace lockstep::agent {

class LineServer {
 public:
  // Names a connection; never used twice, and ascends.
  using ClientId = uint64_t;

  struct Options {
    std::string what;  // a connection, in the log: "a progress connection"
    size_t max_clients = 256;
    size_t max_line = size_t{64} << 10;  // bytes, newline included
    size_t max_unread = size_t{256} << 10;
  };
  struct Handlers {
    // An error closes the connection.
    std::function<Status(ClientId, std::string_view line)> on_line;
    // Whether this connection may have a place. May be empty.
    std::function<bool(int socket)> admit = {};
    // All places are taken: true if one was dropped. May be empty.
    std::function<bool()> make_room = {};
    std::function<void(ClientId)> on_open = {};   // may be empty
    std::function<void(ClientId)> on_close = {};  // may be empty; not in this' destructor
  };

  LineServer(EventLoop* loop, Options options, Handlers handlers, LogFn log);
  ~LineServer();
  LineServer(const LineServer&) = delete;
  LineServer& operator=(const LineServer&) = delete;

  // Takes the socket, which must be listening and non-blocking.
  Status Start(UniqueFd listener);
  bool started() const { return acceptor_.started(); }

  // Hands over what clients have sent, without waiting for the loop to come to them.
  void ReadNow();
  void ReadNow(ClientId client);
  // Nothing happens when the client is gone.
  void Answer(ClientId client, std::string_view bytes);
  // `reason` "": not worth a line of the log.
  void Drop(ClientId client, const std::string& reason);
  size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    explicit Client(size_t max_line) : lines(max_line) {}
    UniqueFd fd;
    LineBuffer lines;
    std::string unsent;
  };

  void OnAccept(UniqueFd fd);
  void OnReady(ClientId id, uint32_t events);
  // False when the client was dropped.
  bool Read(ClientId id, Client& client);
  bool Flush(ClientId id, Client& client);

  EventLoop* loop_;
  Options options_;
  Handlers handlers_;
  RateLimitedLog log_;
  Acceptor acceptor_;
  std::map<ClientId, Client> clients_;
  ClientId last_client_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_LINE_SERVER_H_
