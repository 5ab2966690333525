// RankSocket: the Unix stream socket (LOCKSTEP_SOCKET) on which this machine's processes report
// progress and ask for commits; one JSON object a line (progress_message.h).
//
// Bounded as LineServer is: 1,280 connections (a launcher has one open for each machine), 64 KiB a
// line, 256 KiB of answers that a process doesn't read. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RANK_SOCKET_H_
#define LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RANK_SOCKET_H_

#include <memory>
#include <string>

#include "base/loop/event_loop.h"
#include "base/result.h"
#include "worker/agent/logs/log.h"
#include "worker/agent/rank_socket/progress_message.h"
#include "worker/agent/services/line_server.h"

namespace lockstep::agent {

class RankSocket {
 public:
  using ClientId = LineServer::ClientId;

  class Owner {
   public:
    virtual void OnProgress(ClientId client, const ProgressMessage& message) = 0;
    virtual void OnClosed(ClientId client) = 0;

   protected:
    ~Owner() = default;
  };

  static constexpr size_t kMaxClients = 1280;
  static constexpr size_t kMaxUnread = size_t{256} << 10;

  // Binds `path` (at most 107 bytes), which must not exist, for this user alone. `owner` outlives
  // this.
  static Result<std::unique_ptr<RankSocket>> Listen(EventLoop* loop, const std::string& path,
                                                    Owner* owner, LogFn log);
  ~RankSocket();
  RankSocket(const RankSocket&) = delete;
  RankSocket& operator=(const RankSocket&) = delete;

  // Hands over what clients have sent, without waiting for the loop to come to them.
  void ReadNow() { lines_.ReadNow(); }
  // Nothing happens when the client is gone.
  void Answer(ClientId client, const std::string& line) { lines_.Answer(client, line); }
  size_t clients() const { return lines_.clients(); }

 private:
  RankSocket(EventLoop* loop, std::string path, Owner* owner, LogFn log);
  Status OnLine(ClientId client, std::string_view line);

  std::string path_;
  Owner* owner_;
  LineServer lines_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_RANK_SOCKET_RANK_SOCKET_H_
