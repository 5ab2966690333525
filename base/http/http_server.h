// HttpServer: a few small HTTP/1.1 resources for probes, scrapers and the operator, on a port in
// clear (/healthz, /readyz, /metrics) or on connections that the gang's TLS port hands over
// (/status, /gang).
//
//   HttpServer server(loop, {}, [&](const HttpRequest& request, HttpResponder respond) {
//     if (request.path == "/healthz") return respond.Send({.body = "ok\n"});
//     waiting.push_back(std::move(respond));      // a long poll: answered later
//   });
//
// Bounded: 128 connections, 64 KiB of head, 64 KiB of body, 256 KiB of answers that a client
// doesn't read, ten seconds for a request to come in whole, two minutes without one. When all
// places are taken, the address that holds most of them makes room, by the connection that has
// waited longest for its next request; one that waits for an answer keeps its place. So an address
// that connects without pause only displaces itself. One request of a connection is answered at a
// time. One thread.
#ifndef LOCKSTEP_BASE_HTTP_HTTP_SERVER_H_
#define LOCKSTEP_BASE_HTTP_HTTP_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/http/http_parser.h"
#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/net/acceptor.h"
#include "base/net/connection.h"
#include "base/net/tcp.h"
#include "base/result.h"
#include "base/time.h"

namespace lockstep {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct HttpServerOptions {
  // More than two rounds of an Acceptor: what a new connection has sent is read before a crowd of
  // still newer ones can take its place.
  size_t max_connections = 128;
  size_t max_body = HttpParser::kMaxBody;  // bytes of a request's
  Duration request_deadline = seconds(10);
  Duration idle_deadline = minutes(2);
  bool keep_alive = true;  // false: each answer ends its connection
};

class HttpServer;

// Answers one request, now or later. Copies answer the same request; the first answer counts.
// Does nothing when the client, or the server, is gone.
class HttpResponder {
 public:
  void Send(HttpResponse response);
  // The client hung up, or was answered: nobody waits any more.
  bool gone() const { return !exchange_ || exchange_->answered || !exchange_->send; }

 private:
  friend class HttpServer;
  struct Exchange {
    bool answered = false;
    std::function<void(HttpResponse)> send;  // cleared when the client goes
  };
  explicit HttpResponder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  std::shared_ptr<Exchange> exchange_;
};

class HttpServer {
 public:
  using Handler = std::function<void(const HttpRequest&, HttpResponder)>;

  HttpServer(EventLoop* loop, HttpServerOptions options, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // In clear. Conflict when the port is taken.
  Status Listen(const Endpoint& endpoint);
  const Endpoint& endpoint() const { return endpoint_; }

  // Takes an open connection over, with what it has said so far.
  void Adopt(std::unique_ptr<Connection> connection, std::string_view received);

  size_t connections() const { return clients_.size(); }
  // Whether the kernel has taken all answers.
  bool sent() const;

 private:
  struct Client {
    explicit Client(size_t max_body) : parser(max_body) {}

    uint64_t id = 0;
    std::string source;  // an IPv4 address, the /64 of an IPv6 one; empty if handed over
    std::unique_ptr<Connection> connection;
    HttpParser parser;
    std::shared_ptr<HttpResponder::Exchange> exchange;  // while a request waits for its answer
    bool head_only = false;
    bool keep_alive = true;
    bool receiving = false;  // a request has begun
    uint64_t turn = 0;       // ascends from one connection or answer to the next
  };

  static constexpr size_t kMaxUnread = size_t{256} << 10;

  // False when there is none.
  bool MakeRoom();
  Client& Add(std::unique_ptr<Connection> connection, std::string source);
  void OnBytes(Client& client, std::string_view bytes);
  void ServeNext(Client& client);
  void Serve(Client& client, const HttpRequest& request);
  void Respond(Client& client, const HttpResponse& response);
  void AwaitRequest(Client& client);

  EventLoop* loop_;
  HttpServerOptions options_;
  Handler handler_;
  Acceptor acceptor_;
  Endpoint endpoint_;
  std::map<uint64_t, Client> clients_;
  uint64_t last_client_ = 0;
  uint64_t last_turn_ = 0;
  Lifetime lifetime_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_HTTP_HTTP_SERVER_H_
