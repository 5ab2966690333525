#include "base/http/http_server.h"

#include <netinet/in.h>

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

constexpr int kBacklog = 1024;  // cut to what the kernel allows

const char* ReasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Status";
  }
}

// A machine or a pod has an address, or a whole /64 of them.
std::string SourceOf(const Endpoint& peer) {
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&peer.address);
  if (peer.address.ss_family != AF_INET6 || IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
    return peer.host();
  }
  return {reinterpret_cast<const char*>(&v6->sin6_addr), 8};
}

std::string Format(const HttpResponse& response, bool head_only, bool keep_alive) {
  std::string text =
      "HTTP/1.1 " + std::to_string(response.status) + " " + ReasonPhrase(response.status) + "\r\n";
  text += "Content-Type: " + response.content_type + "\r\n";
  text += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  text += "Cache-Control: no-store\r\n";
  for (const auto& [name, value] : response.headers) {
    text.append(name).append(": ").append(value).append("\r\n");
  }
  text += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  if (!head_only) text += response.body;
  return text;
}

}  // namespace

void HttpResponder::Send(HttpResponse response) {
  if (gone()) return;
  exchange_->answered = true;
  const auto send = std::move(exchange_->send);
  exchange_->send = nullptr;
  send(std::move(response));
}

HttpServer::HttpServer(EventLoop* loop, HttpServerOptions options, Handler handler)
    : loop_(loop), options_(options), handler_(std::move(handler)), acceptor_(loop) {}

HttpServer::~HttpServer() {
  for (const auto& [id, client] : clients_) {
    if (client.exchange) client.exchange->send = nullptr;
  }
}

Status HttpServer::Listen(const Endpoint& endpoint) {
  Result<UniqueFd> fd = ListenTcp(endpoint, kBacklog);
  if (!fd.ok()) return fd.error();
  const Result<Endpoint> local = LocalEndpoint(fd->get());
  if (!local.ok()) return local.error();
  endpoint_ = *local;
  return acceptor_.Start(
      std::move(*fd), {.on_accept = [this](UniqueFd socket, const Endpoint& peer) {
        if (!MakeRoom()) return;
        Client& client = Add(Connection::Accept(loop_, std::move(socket)), SourceOf(peer));
        client.connection->SetDeadline(loop_->now() + options_.request_deadline,
                                       "no request came in time");
      }});
}

void HttpServer::Adopt(std::unique_ptr<Connection> connection, std::string_view received) {
  if (!MakeRoom()) return;
  OnBytes(Add(std::move(connection), ""), received);
}

bool HttpServer::sent() const {
  return std::ranges::all_of(
      clients_, [](const auto& entry) { return entry.second.connection->queued() == 0; });
}

bool HttpServer::MakeRoom() {
  if (clients_.size() < options_.max_connections) return true;
  std::map<std::string_view, size_t> places;
  for (const auto& [id, client] : clients_) ++places[client.source];
  auto longest = clients_.end();
  size_t most = 0;
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    if (it->second.exchange) continue;
    const size_t held = places[it->second.source];
    if (held < most || (held == most && it->second.turn > longest->second.turn)) continue;
    longest = it;
    most = held;
  }
  if (longest == clients_.end()) return false;
  clients_.erase(longest);
  return true;
}

HttpServer::Client& HttpServer::Add(std::unique_ptr<Connection> connection, std::string source) {
  const uint64_t id = ++last_client_;
  Client& client = clients_.try_emplace(id, options_.max_body).first->second;
  client.id = id;
  client.source = std::move(source);
  client.turn = ++last_turn_;
  client.connection = std::move(connection);
  Connection::Handlers handlers = {
      .on_open = {},
      .on_data = [this, &client](std::string_view bytes) { OnBytes(client, bytes); },
      .on_close =
          [this, &client](const std::string&) {
            if (client.exchange) client.exchange->send = nullptr;
            clients_.erase(client.id);
          }};
  if (client.connection->open()) {
    client.connection->SetHandlers(std::move(handlers));
  } else {
    client.connection->Start(std::move(handlers));
  }
  return client;
}

void HttpServer::OnBytes(Client& client, std::string_view bytes) {
  client.parser.Feed(bytes);
  if (client.exchange) {
    // A client may send its next request early; no more than one.
    if (client.parser.buffered() > HttpParser::kMaxHead + options_.max_body) {
      client.connection->Abort("sent requests without reading the answers");
    }
    return;
  }
  ServeNext(client);
}

void HttpServer::ServeNext(Client& client) {
  switch (client.parser.Parse()) {
    case HttpParser::State::kNeedMore:
      AwaitRequest(client);
      return;
    case HttpParser::State::kRequest:
      client.receiving = false;
      Serve(client, client.parser.TakeRequest());
      return;
    case HttpParser::State::kError:
      client.keep_alive = false;
      Respond(client, {.status = client.parser.error_status(),
                       .body = client.parser.error() + "\n",
                       .headers = {}});
      return;
  }
}

// The deadline of a request runs from its first byte, however slowly the others come.
void HttpServer::AwaitRequest(Client& client) {
  if (client.parser.idle()) {
    client.connection->SetDeadline(BootTime() + options_.idle_deadline, "idle");
  } else if (!client.receiving) {
    client.receiving = true;
    client.connection->SetDeadline(BootTime() + options_.request_deadline,
                                   "the request did not come in time");
  }
}

void HttpServer::Serve(Client& client, const HttpRequest& request) {
  if (client.connection->queued() > kMaxUnread) {
    return client.connection->Abort("sent requests without reading the answers");
  }
  client.connection->ClearDeadline();
  client.head_only = request.method == "HEAD";
  client.keep_alive = options_.keep_alive && request.keep_alive;
  client.exchange = std::make_shared<HttpResponder::Exchange>();
  client.exchange->send = [this, waiting = &client](const HttpResponse& response) {
    Respond(*waiting, response);
  };
  handler_(request, HttpResponder(client.exchange));
}

void HttpServer::Respond(Client& client, const HttpResponse& response) {
  client.exchange.reset();
  client.turn = ++last_turn_;
  client.connection->Write(Format(response, client.head_only, client.keep_alive));
  if (!client.keep_alive) return client.connection->Close("answered");
  // Posted: a row of requests sent early does not nest.
  loop_->Post(lifetime_.Guard([this, id = client.id] {
    const auto next = clients_.find(id);
    if (next != clients_.end() && !next->second.exchange) ServeNext(next->second);
  }));
}

}  // namespace lockstep
