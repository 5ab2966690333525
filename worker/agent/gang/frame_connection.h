// FrameConnection: a Connection that carries messages. Owns the connection below it; may be
// destroyed at any time, as that one.
#ifndef LOCKSTEP_WORKER_AGENT_GANG_FRAME_CONNECTION_H_
#define LOCKSTEP_WORKER_AGENT_GANG_FRAME_CONNECTION_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop/lifetime.h"
#include "base/net/connection.h"
#include "worker/agent/gang/frame.h"

namespace lockstep::agent {

class FrameConnection {
 public:
  struct Handlers {
    // `body` is valid during the call.
    std::function<void(std::string_view body)> on_message;
    // Once, and nothing after it.
    std::function<void(const std::string& reason)> on_close;
  };

  static constexpr size_t kMaxBody = size_t{64} << 10;

  // Of an open connection whose magic was sent or read; `received` is what came after it.
  FrameConnection(std::unique_ptr<Connection> connection, EventLoop* loop,
                  std::string_view received);

  // To be called at once by whoever receives it. Delivery starts at the end of this round.
  void Start(Handlers handlers);

  // `body` of at most kMaxBody bytes. Sent with all else of this round.
  void Send(std::string_view body);
  void Close(std::string reason) { connection_->Close(std::move(reason)); }
  void Abort(std::string reason) { connection_->Abort(std::move(reason)); }

 private:
  void OnData(std::string_view bytes);

  std::unique_ptr<Connection> connection_;
  EventLoop* loop_;
  FrameSplitter splitter_{kMaxBody};
  std::shared_ptr<Handlers> handlers_;
  Lifetime lifetime_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_FRAME_CONNECTION_H_
