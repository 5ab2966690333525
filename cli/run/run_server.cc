#include "cli/run/run_server.h"

#include <utility>

#include "base/net/unix_socket.h"

namespace lockstep::cli {
namespace {

constexpr size_t kMaxClients = 16;
constexpr size_t kMaxLine = size_t{64} << 10;
constexpr size_t kMaxAnswer = Connection::kMaxQueued;
constexpr Duration kQuestionPatience = seconds(5);
constexpr Duration kAnswerPatience = seconds(10);

}  // namespace

std::string RunSocket(const std::string& folder) { return folder + "/run.sock"; }

RunServer::RunServer(EventLoop* loop, Handler handler)
    : loop_(loop), handler_(std::move(handler)), acceptor_(loop) {}

Status RunServer::Open(const std::string& folder) {
  Result<UniqueFd> listener = ListenUnix(RunSocket(folder));
  if (!listener.ok()) return listener.error();
  return acceptor_.Start(
      std::move(*listener),
      {.on_accept = [this](UniqueFd socket, const Endpoint&) { OnAccept(std::move(socket)); }});
}

void RunServer::OnAccept(UniqueFd socket) {
  if (clients_.size() >= kMaxClients) return;
  const uint64_t id = ++last_client_;
  Client& client =
      clients_
          .emplace(id, Client{Connection::Accept(loop_, std::move(socket)), LineBuffer(kMaxLine)})
          .first->second;
  client.connection->SetDeadline(BootTime() + kQuestionPatience, "asked nothing");
  client.connection->Start({.on_open = [] {},
                            .on_data = [this, id](std::string_view data) { OnData(id, data); },
                            .on_close = [this, id](const std::string&) { clients_.erase(id); }});
}

void RunServer::OnData(uint64_t id, std::string_view data) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;
  Client& client = found->second;
  client.lines.Append(data);
  const std::optional<std::string_view> line = client.lines.Next();
  if (!line && !client.lines.overflow()) return;
  const Json question = line ? ParseJson(*line) : Json();
  const Result<Json> answer =
      question.is_object() ? handler_(question)
                           : Result<Json>(Error::Invalid("the question is not a JSON object"));
  client.connection->Write(
      DumpJson(answer.ok() ? *answer : Json{{"error", answer.error().message}}) + "\n");
  client.connection->Close("answered");
}

Result<Json> AskRun(const std::string& folder, const Json& question) {
  Result<Json> answer =
      AskUnix(RunSocket(folder), question, kAnswerPatience, kMaxAnswer, "lockstep run");
  if (!answer.ok() || !answer->contains("error")) return answer;
  const Json& error = (*answer)["error"];
  return Error::Conflict(error.is_string() ? error.get<std::string>() : "the run refused");
}

}  // namespace lockstep::cli
