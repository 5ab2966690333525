#include "worker/agent/gang/frame_connection.h"

#include <cassert>
#include <utility>

namespace lockstep::agent {

FrameConnection::FrameConnection(std::unique_ptr<Connection> connection, EventLoop* loop,
                                 std::string_view received)
    : connection_(std::move(connection)), loop_(loop), handlers_(std::make_shared<Handlers>()) {
  splitter_.Feed(received);
}

void FrameConnection::Start(Handlers handlers) {
  handlers_ = std::make_shared<Handlers>(std::move(handlers));
  connection_->SetHandlers({.on_open = {},
                            .on_data = [this](std::string_view bytes) { OnData(bytes); },
                            .on_close = handlers_->on_close});
  loop_->Post(lifetime_.Guard([this] { OnData({}); }));
}

void FrameConnection::Send(std::string_view body) {
  assert(!body.empty() && body.size() <= kMaxBody);
  connection_->Write(EncodeFrame(body));
}

void FrameConnection::OnData(std::string_view bytes) {
  const Lifetime::Watch self = lifetime_.watch();
  const std::shared_ptr<Handlers> to = handlers_;
  splitter_.Feed(bytes);
  while (const std::optional<std::string_view> frame = splitter_.Next()) {
    if (to->on_message) to->on_message(*frame);
    if (self.gone() || !connection_->open()) return;
  }
  if (splitter_.failed()) {
    connection_->Abort("a message of " + std::to_string(splitter_.announced()) + " bytes; 1 to " +
                       std::to_string(kMaxBody) + " are taken");
  }
}

}  // namespace lockstep::agent
