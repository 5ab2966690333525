#include "worker/agent/http/metrics_server.h"

#include <utility>

namespace lockstep::agent {
namespace {

// A scraper or probe comes at longer intervals and dials anew; whoever else holds a place without
// asking is not waited for.
constexpr Duration kIdleDeadline = seconds(5);

}  // namespace

MetricsServer::MetricsServer(EventLoop* loop, Labels common,
                             std::vector<const prometheus::Collectable*> parts,
                             std::function<bool()> ready)
    : common_(std::move(common)),
      parts_(std::move(parts)),
      ready_(std::move(ready)),
      http_(loop, {.idle_deadline = kIdleDeadline},
            [this](const HttpRequest& request, HttpResponder respond) {
              respond.Send(Answer(request.path));
            }) {}

HttpResponse MetricsServer::Answer(const std::string& path) const {
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/readyz") {
    if (ready_()) return {.body = "ok\n"};
    return {.status = 503, .body = "not connected to machine 0\n"};
  }
  if (path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8",
            .body = Expose(parts_, common_)};
  }
  return {.status = 404, .body = "there are /healthz, /readyz and /metrics\n"};
}

}  // namespace lockstep::agent
