// MetricsServer: /metrics, /healthz and /readyz, in clear. A scrape asks the agent's parts on the
// loop's thread: it reads what is in memory and in /proc, and waits for nobody. A page that took T
// to make is given to all who ask within 10 T, so that a crowd of scrapers delays no heartbeat. One
// thread.
#ifndef LOCKSTEP_WORKER_AGENT_HTTP_METRICS_SERVER_H_
#define LOCKSTEP_WORKER_AGENT_HTTP_METRICS_SERVER_H_

#include <functional>
#include <string>
#include <vector>

#include "base/http/http_server.h"
#include "base/loop/event_loop.h"
#include "base/result.h"
#include "base/time.h"
#include "worker/agent/metrics/families.h"

namespace lockstep::agent {

class MetricsServer {
 public:
  // `common`: labels of all samples. `parts` outlive the server.
  MetricsServer(EventLoop* loop, Labels common, std::vector<const prometheus::Collectable*> parts,
                std::function<bool()> ready, std::function<Time()> now = &BootTime);

  // Conflict when the port is taken.
  Status Listen(const Endpoint& endpoint) { return http_.Listen(endpoint); }
  // To a GET of `path`.
  HttpResponse Answer(const std::string& path);

 private:
  const std::string& Page();

  Labels common_;
  std::vector<const prometheus::Collectable*> parts_;
  std::function<bool()> ready_;
  std::function<Time()> now_;
  std::string page_;
  Time page_serves_until_{};
  HttpServer http_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_HTTP_METRICS_SERVER_H_
