// GangPort: this machine's way to its gang's coordinator: CoordinatorHost on machine 0, where the
// coordinator is in the same process, WirePort on all others. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_GANG_GANG_PORT_H_
#define LOCKSTEP_WORKER_AGENT_GANG_GANG_PORT_H_

#include <functional>
#include <string>

#include "core/gang/protocol/messages.h"
#include "worker/agent/gang/gang_client.h"

namespace lockstep::agent {

class GangPort {
 public:
  struct Handlers {
    std::function<void()> on_open;
    // Never called from within Send.
    std::function<void(const core::Message&)> on_message;
    std::function<void(const std::string& reason)> on_close;
  };

  virtual ~GangPort() = default;
  virtual void Start() = 0;
  // Lost while closed: whoever sends says all of it again in on_open.
  virtual void Send(const core::Message& message) = 0;
  // Drops the connection with this reason and makes another; nothing where there is none.
  virtual void Reconnect(const std::string& reason) = 0;
};

// What cannot be read ends the connection.
class WirePort : public GangPort {
 public:
  // As GangClient takes them.
  WirePort(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint, uint32_t machines,
           Handlers handlers, uint64_t seed);

  void Start() override { client_.Start(); }
  void Send(const core::Message& message) override { client_.Send(core::Encode(message)); }
  void Reconnect(const std::string& reason) override { client_.Reconnect(reason); }

 private:
  GangClient client_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_GANG_PORT_H_
