#include "worker/agent/gang/gang_port.h"

namespace lockstep::agent {

WirePort::WirePort(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint,
                   uint32_t machines, GangPort::Owner* owner, uint64_t seed)
    : owner_(owner), client_(loop, tls, endpoint, machines, this, seed) {}

void WirePort::OnMessage(std::string_view body) {
  const Result<core::Message> message = core::Decode(body);
  if (message.ok()) return owner_->OnGangMessage(*message);
  client_.Reconnect("machine 0 sent what cannot be read: " + message.error().message);
}

}  // namespace lockstep::agent
