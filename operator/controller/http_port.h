// HttpPort: a port that answers GETs in clear on its own thread. Idle clients and slow readers take
// no place from others (base/http/http_server.h), so the ports of probes and of metrics cannot stop
// each other or the operator's work. It shows no data of a job.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_HTTP_PORT_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_HTTP_PORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/http/http_server.h"
#include "base/loop/event_loop.h"
#include "base/result.h"

namespace lockstep::control {

class HttpPort {
 public:
  // To a GET of `path`; on the port's thread.
  using Answer = std::function<HttpResponse(const std::string& path)>;

  // `address`: "PORT" or "IP:PORT"; port 0 takes a free one. Unavailable when it can't listen,
  // naming `option`, which said so.
  static Result<std::unique_ptr<HttpPort>> Start(const std::string& option,
                                                 const std::string& address, Answer answer);
  ~HttpPort();
  HttpPort(const HttpPort&) = delete;
  HttpPort& operator=(const HttpPort&) = delete;

  uint16_t port() const { return server_.endpoint().port(); }

 private:
  HttpPort(std::unique_ptr<EventLoop> loop, Answer answer);

  Answer answer_;
  std::unique_ptr<EventLoop> loop_;
  HttpServer server_;  // belongs to the thread from Start to the destructor
  std::thread thread_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_HTTP_PORT_H_
