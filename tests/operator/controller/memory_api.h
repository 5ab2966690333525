// MemoryApi: as much of an API server as a Controller writes to and reads from, in memory. Objects
// have resource versions, and a write that names another one than the object's is a conflict. It
// answers on a thread of its own.
#ifndef LOCKSTEP_TESTS_OPERATOR_CONTROLLER_MEMORY_API_H_
#define LOCKSTEP_TESTS_OPERATOR_CONTROLLER_MEMORY_API_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/text/json.h"
#include "tests/operator/kube/scripted_transport.h"

namespace lockstep::control {

class MemoryApi {
 public:
  // `on_answer` is called on the thread of this after each answer.
  MemoryApi(kube::ScriptedTransport* transport, std::function<void()> on_answer)
      : on_answer_(std::move(on_answer)), server_([this, transport] {
          while (!done_) {
            const auto call = transport->WaitForCall(std::chrono::milliseconds(20));
            if (call == nullptr) continue;
            call->answer(Serve(call->request));
            on_answer_();
          }
        }) {}
  // The client, which has the transport, must be alive.
  ~MemoryApi() {
    done_ = true;
    server_.join();
  }
  MemoryApi(const MemoryApi&) = delete;
  MemoryApi& operator=(const MemoryApi&) = delete;

  // As by somebody else.
  void Put(const std::string& path, Json object) {
    const std::lock_guard lock(mutex_);
    Store(path, std::move(object));
  }
  void Delete(const std::string& path) {
    const std::lock_guard lock(mutex_);
    ++version_;
    objects_.erase(path);
  }
  // null: there is none.
  Json Get(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(path);
    return found == objects_.end() ? Json() : found->second;
  }
  // Those of a collection, by name, and the version of all.
  std::pair<std::vector<Json>, std::string> List(const std::string& collection) const {
    const std::lock_guard lock(mutex_);
    return {ItemsOf(collection), std::to_string(version_)};
  }
  // All requests in order, such as "GET /api/v1/namespaces/default/pods"; and those that write.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::vector<std::string> writes() const {
    std::vector<std::string> writes = requests();
    std::erase_if(writes, [](const std::string& line) { return line.starts_with("GET "); });
    return writes;
  }
  uint64_t version() const {
    const std::lock_guard lock(mutex_);
    return version_;
  }
  // Called once, before the next request whose line begins so.
  void Before(const std::string& line, std::function<void()> change) {
    const std::lock_guard lock(mutex_);
    before_ = {line, std::move(change)};
  }

 private:
  static kube::Response Failure(int status, const std::string& reason) {
    return {status, DumpJson(Json{{"kind", "Status"}, {"reason", reason}, {"code", status}}), {}};
  }

  std::vector<Json> ItemsOf(const std::string& collection) const {
    std::vector<Json> items;
    for (const auto& [path, object] : objects_) {
      const bool within = path.starts_with(collection + "/");
      if (within && path.find('/', collection.size() + 1) == std::string::npos) {
        items.push_back(object);
      }
    }
    return items;
  }

  const Json& Store(const std::string& path, Json object) {
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    if (!object["metadata"].contains("uid")) {
      object["metadata"]["uid"] = "uid-" + std::to_string(version_);
    }
    return objects_[path] = std::move(object);
  }

  kube::Response Serve(const kube::Request& request) {
    std::string path = request.path.substr(0, request.path.find('?'));
    if (path.ends_with("/status")) path.resize(path.size() - std::string("/status").size());
    const std::string line = std::string(kube::ToString(request.method)) + " " + path;
    std::function<void()> change;
    {
      const std::lock_guard lock(mutex_);
      if (before_.second && line.starts_with(before_.first)) {
        change = std::exchange(before_, {}).second;
      }
    }
    if (change) change();
    const std::lock_guard lock(mutex_);
    requests_.push_back(line);
    const auto found = objects_.find(path);
    const bool there = found != objects_.end();
    switch (request.method) {
      case kube::Method::kGet: {
        if (there) return {200, DumpJson(found->second), {}};
        const bool collection = path.ends_with("s") && path.find("/secrets/") == std::string::npos;
        if (!collection) return Failure(404, "NotFound");
        return {200,
                DumpJson(Json{{"kind", "List"},
                              {"metadata", {{"resourceVersion", std::to_string(version_)}}},
                              {"items", ItemsOf(path)}}),
                {}};
      }
      case kube::Method::kPost: {
        Json object = Json::parse(request.body);
        const std::string name = object["metadata"]["name"];
        if (objects_.contains(path + "/" + name)) return Failure(409, "AlreadyExists");
        if (path.ends_with("/services") && !object["spec"].contains("clusterIP")) {
          object["spec"]["clusterIP"] = "10.96.0." + std::to_string(++addresses_);
        }
        return {201, DumpJson(Store(path + "/" + name, std::move(object))), {}};
      }
      case kube::Method::kDelete:
        if (!there) return Failure(404, "NotFound");
        ++version_;
        objects_.erase(found);
        return {200, R"({"kind": "Status", "status": "Success"})", {}};
      case kube::Method::kPut:
      case kube::Method::kPatch:
        break;
    }
    if (!there) return Failure(404, "NotFound");
    return Change(path, found->second, request);
  }

  kube::Response Change(const std::string& path, const Json& before, const kube::Request& request) {
    Json after = before;
    const Json body = Json::parse(request.body);
    if (request.method == kube::Method::kPut) {
      after = body;
    } else if (body.is_array()) {
      after = before.patch(body);
    } else {
      after.merge_patch(body);
    }
    if (after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]) {
      return Failure(409, "Conflict");
    }
    return {200, DumpJson(Store(path, std::move(after))), {}};
  }

  mutable std::mutex mutex_;
  std::map<std::string, Json> objects_;
  std::vector<std::string> requests_;
  uint64_t version_ = 100;
  int addresses_ = 0;  // of Services
  std::pair<std::string, std::function<void()>> before_;
  std::function<void()> on_answer_;
  std::atomic<bool> done_ = false;
  std::thread server_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_TESTS_OPERATOR_CONTROLLER_MEMORY_API_H_
