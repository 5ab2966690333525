#include "worker/agent/services/horovod_store.h"

#include <optional>
#include <utility>

#include "base/text/ascii.h"

namespace lockstep::agent {

namespace {

constexpr size_t kMaxPath = 512;
constexpr size_t kNobody = SIZE_MAX;
constexpr size_t kSpareConnections = 128;  // beside one for each rank

size_t Takes(const std::string& scope, const std::string& key, const std::string& value) {
  return scope.size() + key.size() + value.size() + HorovodTable::kEntryBytes;
}

}  // namespace

HttpResponse HorovodTable::Answer(const HttpRequest& request) {
  const size_t slash = request.path.find('/', 1);
  if (slash == std::string::npos || slash == 1 || slash + 1 == request.path.size() ||
      request.path.size() > kMaxPath) {
    return {.status = 400, .body = "a path is /SCOPE/KEY\n"};
  }
  const std::string scope = request.path.substr(1, slash - 1);
  const std::string key = request.path.substr(slash + 1);
  if (request.method == "PUT") return Put(scope, key, request.body);
  if (request.method == "DELETE") {
    Finish(scope, key);
    return {};
  }
  if (request.method != "GET") return {.status = 405, .body = "there are GET, PUT and DELETE\n"};
  const auto found = scopes_.find(scope);
  if (found != scopes_.end()) {
    const auto value = found->second.values.find(key);
    if (value != found->second.values.end()) {
      return {.content_type = "application/octet-stream", .body = value->second};
    }
  }
  return {.status = 404};
}

HttpResponse HorovodTable::Put(const std::string& scope, const std::string& key,
                               const std::string& value) {
  const auto found = scopes_.find(scope);
  size_t freed = 0;
  if (found != scopes_.end()) {
    const auto old = found->second.values.find(key);
    if (old != found->second.values.end()) freed = Takes(scope, key, old->second);
  }
  const size_t size = Takes(scope, key, value);
  if (bytes_ - freed + size > kMaxBytes) return {.status = 413, .body = "the table is full\n"};
  bytes_ += size - freed;
  scopes_[scope].values.insert_or_assign(key, value);
  return {};
}

// A program may shut Horovod down and begin again; nothing of the first time may be left then.
void HorovodTable::Finish(const std::string& scope, const std::string& rank) {
  const auto found = scopes_.find(scope);
  const std::optional<size_t> number = ParseNumber<size_t>(rank);
  if (found == scopes_.end() || number.value_or(kNobody) >= size_t{machines_} * processes_) return;
  found->second.done.insert(*number);
  if (found->second.done.size() < SizeOf(scope)) return;
  for (const auto& [key, value] : found->second.values) bytes_ -= Takes(scope, key, value);
  scopes_.erase(found);
}

size_t HorovodTable::SizeOf(const std::string& scope) const {
  if (scope.starts_with("local_")) return processes_;
  if (scope.starts_with("cross_")) return machines_;
  return size_t{machines_} * processes_;
}

Status HorovodStore::Begin(uint32_t port) {
  const Result<Endpoint> endpoint = MakeEndpoint(address_, static_cast<uint16_t>(port));
  if (!endpoint.ok()) return endpoint.error();
  server_.reset();
  table_ = std::make_unique<HorovodTable>(machines_, processes_);
  HttpServerOptions options;
  options.max_connections = size_t{machines_} * processes_ + kSpareConnections;
  server_ = std::make_unique<HttpServer>(loop_, options,
                                         [this](const HttpRequest& request, HttpResponder respond) {
                                           respond.Send(table_->Answer(request));
                                         });
  return server_->Listen(*endpoint);
}

}  // namespace lockstep::agent
