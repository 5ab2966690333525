#include "worker/agent/http/status_server.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text/ascii.h"

namespace lockstep::agent {

namespace {

HttpResponse Text(int status, std::string body) {
  return {.status = status, .body = std::move(body) + "\n"};
}

}  // namespace

StatusServer::StatusServer(EventLoop* loop, Handlers handlers)
    : loop_(loop),
      handlers_(std::move(handlers)),
      http_(loop, {.max_body = core::kMaxGangBody},
            [this](const HttpRequest& request, HttpResponder respond) {
              Serve(request, std::move(respond));
            }) {}

StatusServer::~StatusServer() {
  for (const Waiting& waiting : waiting_) loop_->CancelTimer(waiting.timer);
}

void StatusServer::Adopt(std::unique_ptr<Connection> connection, std::string_view received) {
  http_.Adopt(std::move(connection), received);
}

void StatusServer::Notify() {
  if (waiting_.empty() || notifying_) return;
  // Many changes come in one round of the loop; one answer says them all.
  notifying_ = true;
  loop_->Post([this] {
    notifying_ = false;
    uint64_t version = handlers_.version();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->after >= version && !it->respond.gone()) {
        ++it;
        continue;
      }
      loop_->CancelTimer(it->timer);
      HttpResponder respond = std::move(it->respond);
      const bool by_machine = it->by_machine;
      it = waiting_.erase(it);
      Answer(std::move(respond), by_machine);
    }
  });
}

void StatusServer::Serve(const HttpRequest& request, HttpResponder respond) {
  if (request.path == "/status") return ServeStatus(request, std::move(respond));
  if (request.path == "/gang") return ServeGang(request, std::move(respond));
  if (request.path == "/memory" && handlers_.memory) {
    return handlers_.memory(request, std::move(respond));
  }
  if (request.path == "/code" && handlers_.code) {
    return handlers_.code(request, std::move(respond));
  }
  respond.Send(Text(404, "there are /status and /gang"));
}

void StatusServer::ServeStatus(const HttpRequest& request, HttpResponder respond) {
  if (request.method != "GET") return respond.Send(Text(405, "/status takes GET"));
  const std::string* after_text = request.Query("after");
  const std::string* patience_text = request.Query("timeout");
  std::optional<uint64_t> after = after_text ? ParseNumber<uint64_t>(*after_text) : 0;
  std::optional<uint64_t> patience =
      patience_text ? ParseNumber<uint64_t>(*patience_text)
                    : static_cast<uint64_t>(duration_cast<seconds>(kDefaultPatience).count());
  if (!after || !patience) {
    return respond.Send(Text(400, "after and timeout must be whole numbers"));
  }
  const std::string* by = request.Query("by");
  const bool by_machine = by != nullptr && *by == "machine";
  if (after_text == nullptr || handlers_.version() > *after) {
    return Answer(std::move(respond), by_machine);
  }
  waiting_.push_back({std::move(respond), *after, by_machine, 0});
  auto it = std::prev(waiting_.end());
  Duration wait = std::min<Duration>(seconds(std::min<uint64_t>(*patience, 3600)), kMaxPatience);
  it->timer = loop_->StartTimer(loop_->now() + wait, [this, it] {
    HttpResponder waiting = std::move(it->respond);
    const bool wants_machines = it->by_machine;
    waiting_.erase(it);
    Answer(std::move(waiting), wants_machines);
  });
}

void StatusServer::ServeGang(const HttpRequest& request, HttpResponder respond) {
  if (request.method != "PUT") return respond.Send(Text(405, "/gang takes PUT"));
  if (!handlers_.desired) return respond.Send(Text(421, "only machine 0 takes a desired state"));
  Result<core::DesiredState> desired = core::ParseDesiredState(request.body);
  if (!desired.ok()) return respond.Send(Text(400, desired.error().message));
  Status done = handlers_.desired(*desired);
  if (done.ok()) return respond.Send({.content_type = "application/json", .body = "{}\n"});
  respond.Send(Text(done.error().kind == ErrorKind::kConflict ? 409 : 400, done.error().message));
}

void StatusServer::Answer(HttpResponder respond, bool by_machine) {
  respond.Send({.content_type = "application/json",
                .body = core::ToJson(handlers_.status(by_machine)) + "\n"});
}

}  // namespace lockstep::agent
