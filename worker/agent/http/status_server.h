// StatusServer: GET /status (long poll) and PUT /gang, on connections that have proven the job's
// key. One thread.
#ifndef LOCKSTEP_WORKER_AGENT_HTTP_STATUS_SERVER_H_
#define LOCKSTEP_WORKER_AGENT_HTTP_STATUS_SERVER_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>

#include "base/http/http_server.h"
#include "base/loop/event_loop.h"
#include "base/result.h"
#include "base/time.h"
#include "core/gang/status/status_api.h"

namespace lockstep::agent {

class StatusServer {
 public:
  struct Handlers {
    // GET /memory; empty where no checkpoints are kept in memory.
    std::function<void(const HttpRequest&, HttpResponder)> memory;
    // GET /code; empty in a job without sync.
    std::function<void(const HttpRequest&, HttpResponder)> code;
    // `by_machine`: as core::StatusOf has it.
    std::function<core::GangStatus(bool by_machine)> status;
    std::function<uint64_t()> version;  // that status() would carry
    // Empty on machines other than 0: PUT /gang answers 421 there.
    std::function<Status(const core::DesiredState&)> desired;
  };

  static constexpr Duration kDefaultPatience = seconds(30);
  static constexpr Duration kMaxPatience = minutes(1);

  StatusServer(EventLoop* loop, Handlers handlers);
  ~StatusServer();
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  void Adopt(std::unique_ptr<Connection> connection, std::string_view received);
  // Answers whoever waits for a version that has come. Cheap when nobody does.
  void Notify();

 private:
  struct Waiting {
    HttpResponder respond;
    uint64_t after = 0;
    bool by_machine = false;
    TimerId timer = 0;
  };

  void Serve(const HttpRequest& request, HttpResponder respond);
  void ServeStatus(const HttpRequest& request, HttpResponder respond);
  void ServeGang(const HttpRequest& request, HttpResponder respond);
  void Answer(HttpResponder respond, bool by_machine);

  EventLoop* loop_;
  Handlers handlers_;
  HttpServer http_;
  std::list<Waiting> waiting_;
  bool notifying_ = false;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_HTTP_STATUS_SERVER_H_
