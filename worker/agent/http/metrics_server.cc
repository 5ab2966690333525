#include "worker/agent/http/metrics_server.h"

#include <utility>

namespace lockstep::agent {
namespace {

// A scraper or probe comes at longer intervals and dials anew; whoever else holds a place without
// asking is not waited for.
constexpr Duration kIdleDeadline = seconds(5);
constexpr int kPageServes = 10;  // times as long as it took to make

}  // namespace

MetricsServer::MetricsServer(EventLoop* loop, Labels common,
                             std::vector<const prometheus::Collectable*> parts,
                             std::function<bool()> ready, std::function<Time()> now)
    : common_(std::move(common)),
      parts_(std::move(parts)),
      ready_(std::move(ready)),
      now_(std::move(now)),
      http_(loop, {.idle_deadline = kIdleDeadline},
            [this](const HttpRequest& request, HttpResponder respond) {
              respond.Send(Answer(request.path));
            }) {}

HttpResponse MetricsServer::Answer(const std::string& path) {
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/readyz") {
    if (ready_()) return {.body = "ok\n"};
    return {.status = 503, .body = "not connected to machine 0\n"};
  }
  if (path == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = Page()};
  }
  return {.status = 404, .body = "there are /healthz, /readyz and /metrics\n"};
}

const std::string& MetricsServer::Page() {
  const Time asked = now_();
  if (asked < page_serves_until_) return page_;
  page_ = Expose(parts_, common_);
  page_serves_until_ = asked + kPageServes * (now_() - asked);
  return page_;
}

}  // namespace lockstep::agent
