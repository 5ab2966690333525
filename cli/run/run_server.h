// RunServer: where other commands of the same user ask a `lockstep run` for something: a socket in
// its folder, which is shut to other users. One line of JSON is asked, one is answered. Bounded:
// connections, 64 KiB of a question, 2 MiB of an answer, 5 s for a question to come. One thread.
//
//   {"restart": {"reason": ..., "requestedBy": ..., "atCommit": ...}}  ->  {"job": NAME}
//   {"look": {}}  ->  {"document": the TrainingJob with its status, as JSON in a string}
//   {"log": {"rank": R | "machine": M, "lines": N}}  ->
//       {"processes": P, "skipped": lines that are not shown, "lines": [{"r": rank, "m": text}]}
#ifndef LOCKSTEP_CLI_RUN_RUN_SERVER_H_
#define LOCKSTEP_CLI_RUN_RUN_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop/event_loop.h"
#include "base/net/acceptor.h"
#include "base/net/connection.h"
#include "base/result.h"
#include "base/text/json.h"
#include "base/text/line_buffer.h"

namespace lockstep::cli {

// The socket in the run's folder.
std::string RunSocket(const std::string& folder);

class RunServer {
 public:
  // An error is answered as {"error": "..."}.
  using Handler = std::function<Result<Json>(const Json& question)>;

  RunServer(EventLoop* loop, Handler handler);
  RunServer(const RunServer&) = delete;
  RunServer& operator=(const RunServer&) = delete;

  lockstep::Status Open(const std::string& folder);

 private:
  struct Client {
    std::unique_ptr<Connection> connection;
    LineBuffer lines;
  };

  void OnAccept(UniqueFd socket);
  void OnData(uint64_t id, std::string_view data);

  EventLoop* loop_;
  Handler handler_;
  Acceptor acceptor_;
  std::map<uint64_t, Client> clients_;
  uint64_t last_client_ = 0;
};

// Asks the run in this folder, for up to 10 s. The error that it answers is this one's.
Result<Json> AskRun(const std::string& folder, const Json& question);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_RUN_RUN_SERVER_H_
