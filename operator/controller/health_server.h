// HealthServer: GET /healthz, /readyz and /metrics over plain HTTP, by civetweb. Nothing of a job
// is shown here.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_HEALTH_SERVER_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_HEALTH_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"

struct mg_context;

namespace lockstep::control {

// Called from the server's threads.
struct HealthHandlers {
  std::function<bool()> healthy;  // false: the process should be restarted
  // Empty: ready. Else what it waits for.
  std::function<std::string()> not_ready;
  std::function<std::string()> metrics;
};

class HealthServer {
 public:
  // `address`: "PORT" or "IP:PORT"; port 0 takes a free one. Unavailable when it can't listen.
  static Result<std::unique_ptr<HealthServer>> Start(const std::string& address,
                                                     HealthHandlers handlers);
  ~HealthServer();
  HealthServer(const HealthServer&) = delete;
  HealthServer& operator=(const HealthServer&) = delete;

  uint16_t port() const;

 private:
  explicit HealthServer(HealthHandlers handlers) : handlers_(std::move(handlers)) {}

  HealthHandlers handlers_;
  mg_context* context_ = nullptr;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_HEALTH_SERVER_H_
