// LyingAgent: has the job's key, answers every request at once, and never the truth twice.
#ifndef LOCKSTEP_TESTS_OPERATOR_GANG_LYING_AGENT_H_
#define LOCKSTEP_TESTS_OPERATOR_GANG_LYING_AGENT_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/crypto/tls_psk.h"
#include "base/http/http_server.h"
#include "base/loop/event_loop.h"
#include "core/gang/status/status_api.h"
#include "core/model/names.h"
#include "worker/agent/gang/gang_listener.h"

namespace lockstep::gang {

class LyingAgent {
 public:
  // `readable`: every other answer is a status, if a wild one.
  LyingAgent(EventLoop* loop, std::string job_uid, const Key& key, bool readable = true)
      : loop_(loop),
        job_uid_(std::move(job_uid)),
        readable_(readable),
        tls_(std::move(*TlsPskContext::Server(key, core::GangIdentity(job_uid_)))),
        http_(loop, {},
              [this](const HttpRequest&, HttpResponder respond) { respond.Send(Answer()); }) {}

  Status Listen(const Endpoint& endpoint) {
    auto listener = agent::GangListener::Listen(
        loop_, endpoint, &tls_, {},
        {.on_member = [](auto, const auto&) {},
         .on_http =
             [this](std::unique_ptr<Connection> connection, std::string_view received) {
               http_.Adopt(std::move(connection), received);
             }},
        [](const std::string&) {});
    if (!listener.ok()) return listener.error();
    listener_ = std::move(*listener);
    return {};
  }

  const Endpoint& endpoint() const { return listener_->endpoint(); }
  int asked() const { return asked_; }

 private:
  HttpResponse Answer() {
    core::GangStatus status;
    status.job_uid = job_uid_;
    status.attempt = 1;
    status.coordinator = true;
    status.version = static_cast<uint64_t>(++asked_);
    status.phase = core::CoordinatorPhase::kGathering;
    switch (readable_ ? asked_ % 8 : asked_ % 2 * 3 + 2) {
      case 1:
        return {.body = std::string(200'000, '[')};
      case 2:
        return {.status = 302, .body = "elsewhere", .headers = {{"Location", "http://a/"}}};
      case 3:
        status.counters.stops = status.generation.n = ~uint32_t{0};
        return {.body = core::ToJson(status)};
      case 4:
        status.machines.resize(1000);
        return {.body = core::ToJson(status)};
      case 5:
        return {.body = R"({"reason": ")" + std::string(200'000, 'x') + R"("})"};
      default:
        return {.body = core::ToJson(status)};
    }
  }

  EventLoop* loop_;
  std::string job_uid_;
  bool readable_;
  TlsPskContext tls_;
  HttpServer http_;
  std::unique_ptr<agent::GangListener> listener_;
  int asked_ = 0;
};

}  // namespace lockstep::gang

#endif  // LOCKSTEP_TESTS_OPERATOR_GANG_LYING_AGENT_H_
