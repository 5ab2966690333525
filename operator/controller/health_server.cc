#include "operator/controller/health_server.h"

#include <civetweb.h>

#include <array>
#include <exception>

namespace lockstep::control {
namespace {

constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kPrometheus = "text/plain; version=0.0.4; charset=utf-8";

int Respond(mg_connection* connection, int code, const char* type, const std::string& body) {
  mg_printf(connection,
            "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            code, mg_get_response_code_text(connection, code), type, body.size());
  mg_write(connection, body.data(), body.size());
  return code;
}

bool IsRead(mg_connection* connection) {
  const std::string method = mg_get_request_info(connection)->request_method;
  return method == "GET" || method == "HEAD";
}

int OnHealth(mg_connection* connection, void* data) {
  if (!IsRead(connection)) return Respond(connection, 405, kPlain, "only GET\n");
  const bool healthy = static_cast<HealthHandlers*>(data)->healthy();
  return Respond(connection, healthy ? 200 : 503, kPlain, healthy ? "ok\n" : "not healthy\n");
}

int OnReady(mg_connection* connection, void* data) {
  if (!IsRead(connection)) return Respond(connection, 405, kPlain, "only GET\n");
  const std::string waits = static_cast<HealthHandlers*>(data)->not_ready();
  return Respond(connection, waits.empty() ? 200 : 503, kPlain,
                 waits.empty() ? "ok\n" : waits + "\n");
}

int OnMetrics(mg_connection* connection, void* data) {
  if (!IsRead(connection)) return Respond(connection, 405, kPlain, "only GET\n");
  return Respond(connection, 200, kPrometheus, static_cast<HealthHandlers*>(data)->metrics());
}

}  // namespace

Result<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address,
                                                          HealthHandlers handlers) {
  std::unique_ptr<HealthServer> server(new HealthServer(std::move(handlers)));
  std::array<const char*, 11> options = {"listening_ports",
                                         address.c_str(),
                                         "num_threads",
                                         "2",
                                         "request_timeout_ms",
                                         "5000",
                                         "max_request_size",
                                         "8192",
                                         "enable_keep_alive",
                                         "no",
                                         nullptr};
  mg_callbacks callbacks{};
  server->context_ = mg_start(&callbacks, nullptr, options.data());
  if (server->context_ == nullptr) {
    return Error::Unavailable("cannot listen on " + address +
                              "; give another --metrics-address, IP:PORT or PORT");
  }
  HealthHandlers* data = &server->handlers_;
  mg_set_request_handler(server->context_, "/healthz$", OnHealth, data);
  mg_set_request_handler(server->context_, "/readyz$", OnReady, data);
  mg_set_request_handler(server->context_, "/metrics$", OnMetrics, data);
  return server;
}

HealthServer::~HealthServer() {
  if (context_ != nullptr) mg_stop(context_);
}

uint16_t HealthServer::port() const {
  mg_server_port port{};
  return mg_get_server_ports(context_, 1, &port) == 1 ? static_cast<uint16_t>(port.port)
                                                      : uint16_t{0};
}

}  // namespace lockstep::control
