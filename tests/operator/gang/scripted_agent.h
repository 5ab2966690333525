// ScriptedAgent: what answers GET /status and PUT /gang for one machine, with what a test wants
// said; the agents' own listener and status server on a port of 127.0.0.1 (or ::1).
#ifndef LOCKSTEP_TESTS_OPERATOR_GANG_SCRIPTED_AGENT_H_
#define LOCKSTEP_TESTS_OPERATOR_GANG_SCRIPTED_AGENT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crypto/tls_psk.h"
#include "base/loop/event_loop.h"
#include "core/model/names.h"
#include "operator/gang/gang_link.h"
#include "worker/agent/gang/gang_listener.h"
#include "worker/agent/http/status_server.h"

namespace lockstep::gang {

class ScriptedAgent {
 public:
  ScriptedAgent(EventLoop* loop, const std::string& job_uid, const Key& key, uint32_t machine,
                uint32_t attempt, const std::string& host = "127.0.0.1")
      : loop_(loop), tls_(std::move(*TlsPskContext::Server(key, core::GangIdentity(job_uid)))) {
    status.job_uid = job_uid;
    status.machine = machine;
    status.attempt = attempt;
    status.coordinator = machine == 0;
    status.version = 1;
    status.phase = core::CoordinatorPhase::kGathering;
    address_ = *MakeEndpoint(host, 0);
    Start();
  }

  // Listens, where it did before if it did.
  void Start() {
    agent::StatusServer::Handlers handlers;
    handlers.status = [this](bool) {
      ++answers;
      return status;
    };
    handlers.version = [this] { return status.version; };
    handlers.desired = [this](const core::DesiredState& desired) -> Status {
      desired_states.push_back(desired);
      if (refusals == 0) return {};
      --refusals;
      return Error::Conflict("older than one seen");
    };
    server_ = std::make_unique<agent::StatusServer>(loop_, std::move(handlers));
    auto listener = agent::GangListener::Listen(
        loop_, address_, &tls_, {},
        {.on_member = [](auto, const auto&) {},
         .on_http =
             [this](std::unique_ptr<Connection> connection, std::string_view received) {
               most_connections = std::max(most_connections, listener_->connections());
               ++accepted;
               server_->Adopt(std::move(connection), received);
             }},
        [](const std::string&) {});
    ASSERT_TRUE(listener.ok()) << listener.error().message;
    listener_ = std::move(*listener);
    address_ = listener_->endpoint();
  }
  // Every connection ends, and nobody can connect.
  void Stop() {
    server_.reset();
    listener_.reset();
  }
  // Something changed: whoever waits hears of it.
  void Change() {
    ++status.version;
    server_->Notify();
  }

  GangPeers::Member member() const { return {status.machine, status.attempt, address_.ToString()}; }
  size_t connections() const { return listener_->connections(); }

  core::GangStatus status;
  int answers = 0;
  int refusals = 0;  // so many desired states are answered with 409
  std::vector<core::DesiredState> desired_states;
  size_t most_connections = 0;
  int64_t accepted = 0;  // connections in all

 private:
  EventLoop* loop_;
  TlsPskContext tls_;
  Endpoint address_;
  std::unique_ptr<agent::GangListener> listener_;
  std::unique_ptr<agent::StatusServer> server_;
};

}  // namespace lockstep::gang

#endif  // LOCKSTEP_TESTS_OPERATOR_GANG_SCRIPTED_AGENT_H_
