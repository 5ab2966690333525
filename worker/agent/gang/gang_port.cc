#include "worker/agent/gang/gang_port.h"

#include <utility>

namespace lockstep::agent {

WirePort::WirePort(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint,
                   uint32_t machines, Handlers handlers, uint64_t seed)
    : client_(loop, tls, endpoint, machines,
              {.on_open = std::move(handlers.on_open),
               .on_message =
                   [this, hear = std::move(handlers.on_message)](std::string_view body) {
                     const Result<core::Message> message = core::Decode(body);
                     if (message.ok()) return hear(*message);
                     client_.Reconnect("machine 0 sent what cannot be read: " +
                                       message.error().message);
                   },
               .on_close = std::move(handlers.on_close)},
              seed) {}

}  // namespace lockstep::agent
