#include "operator/controller/http_port.h"

#include <utility>

#include "base/http/listen_on.h"
#include "base/thread.h"

namespace lockstep::control {
namespace {

// Every answer ends its connection, so that a client holds at most one answer, unread for at most
// Connection::kLinger.
constexpr HttpServerOptions kOptions = {.request_deadline = seconds(5), .keep_alive = false};

}  // namespace

HttpPort::HttpPort(std::unique_ptr<EventLoop> loop, Answer answer)
    : answer_(std::move(answer)),
      loop_(std::move(loop)),
      server_(loop_.get(), kOptions, [this](const HttpRequest& request, HttpResponder respond) {
        if (request.method == "GET" || request.method == "HEAD") {
          return respond.Send(answer_(request.path));
        }
        respond.Send({.status = 405, .body = "only GET\n"});
      }) {}

Result<std::unique_ptr<HttpPort>> HttpPort::Start(const std::string& option,
                                                  const std::string& address, Answer answer) {
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  if (!loop.ok()) return loop.error();
  std::unique_ptr<HttpPort> port(new HttpPort(std::move(*loop), std::move(answer)));
  if (const Status listens = ListenOn(&port->server_, address); !listens.ok()) {
    return Error::Unavailable("cannot listen on " + address + " (" + listens.error().message +
                              "); give another " + option + ", IP:PORT or PORT");
  }
  Result<std::thread> thread = StartThread([loop = port->loop_.get()] { loop->Run(); });
  if (!thread.ok()) return thread.error();
  port->thread_ = std::move(*thread);
  return port;
}

HttpPort::~HttpPort() {
  if (!thread_.joinable()) return;
  loop_->PostFromAnyThread([this] { loop_->Stop(); });
  thread_.join();
}

}  // namespace lockstep::control
