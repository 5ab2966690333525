// GangPort: this machine's way to its gang's coordinator: CoordinatorHost on machine 0, where the
// coordinator is in the same process, WirePort on all others. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_GANG_GANG_PORT_H_
#define LOCKSTEP_WORKER_AGENT_GANG_GANG_PORT_H_

#include <string>
#include <string_view>

#include "core/gang/protocol/messages.h"
#include "worker/agent/gang/gang_client.h"

namespace lockstep::agent {

class GangPort {
 public:
  class Owner {
   public:
    virtual void OnGangOpen() = 0;
    // Never called from within Send.
    virtual void OnGangMessage(const core::Message& message) = 0;
    virtual void OnGangClose(const std::string& reason) = 0;

   protected:
    ~Owner() = default;
  };

  virtual ~GangPort() = default;
  virtual void Start() = 0;
  // Drops the message while closed. The owner sends its state again in OnGangOpen.
  virtual void Send(const core::Message& message) = 0;
  // Drops the connection with this reason and makes another; nothing where there is none.
  virtual void Reconnect(const std::string& reason) = 0;
};

// What cannot be read ends the connection.
class WirePort final : public GangPort, private GangClient::Owner {
 public:
  // As GangClient takes them.
  WirePort(EventLoop* loop, const TlsPskContext* tls, const Endpoint& endpoint, uint32_t machines,
           GangPort::Owner* owner, uint64_t seed);

  void Start() override { client_.Start(); }
  void Send(const core::Message& message) override { client_.Send(core::Encode(message)); }
  void Reconnect(const std::string& reason) override { client_.Reconnect(reason); }

 private:
  void OnOpen() override { owner_->OnGangOpen(); }
  void OnMessage(std::string_view body) override;
  void OnClose(const std::string& reason) override { owner_->OnGangClose(reason); }

  GangPort::Owner* owner_;
  GangClient client_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_GANG_GANG_PORT_H_
