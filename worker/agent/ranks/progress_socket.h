// ProgressSocket: the Unix stream socket (LOCKSTEP_SOCKET) on which this machine's processes report
// progress and ask for commits; one JSON object a line (progress_message.h).
//
// Bounded: 1,280 connections (a launcher has one open for each machine), 64 KiB a line, 256 KiB of
// answers that a process doesn't read, 64 KiB read from one connection in a round, so that a
// process that floods it delays no heartbeat. A line that can't be read closes its connection, and
// the log says why. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_RANKS_PROGRESS_SOCKET_H_
#define LOCKSTEP_WORKER_AGENT_RANKS_PROGRESS_SOCKET_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/event_loop.h"
#include "base/net/acceptor.h"
#include "base/result.h"
#include "base/text/line_buffer.h"
#include "base/unique_fd.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/ranks/progress_message.h"

namespace lockstep::agent {

class ProgressSocket {
 public:
  // Names a connection for Answer(); never used twice.
  using ClientId = uint64_t;
  using Handler = std::function<void(ClientId, const ProgressMessage&)>;

  static constexpr size_t kMaxClients = 1280;
  static constexpr size_t kMaxUnread = size_t{256} << 10;

  // Binds `path` (at most 107 bytes), which must not exist, for this user alone.
  static Result<std::unique_ptr<ProgressSocket>> Listen(EventLoop* loop, const std::string& path,
                                                        Handler handler, LogFn log);
  ~ProgressSocket();
  ProgressSocket(const ProgressSocket&) = delete;
  ProgressSocket& operator=(const ProgressSocket&) = delete;

  // Hands over what clients have sent, without waiting for the loop to come to them.
  void ReadNow();
  // Nothing happens when the client is gone.
  void Answer(ClientId client, const std::string& line);
  size_t clients() const { return clients_.size(); }

 private:
  struct Client {
    UniqueFd fd;
    LineBuffer lines{kMaxProgressLine - 1};
    std::string unsent;
  };

  ProgressSocket(EventLoop* loop, std::string path, Handler handler, LogFn log);
  void OnAccept(UniqueFd fd);
  void OnReady(ClientId id, uint32_t events);
  // False when the client was dropped.
  bool Read(ClientId id, Client& client);
  bool Flush(ClientId id, Client& client);
  void Drop(ClientId id, const std::string& reason);

  EventLoop* loop_;
  std::string path_;
  Handler handler_;
  RateLimitedLog log_;
  Acceptor acceptor_;
  std::map<ClientId, Client> clients_;
  ClientId last_client_ = 0;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANKS_PROGRESS_SOCKET_H_
