// HorovodStore: the keys and values by which Horovod's processes find one another over Gloo, as
// `horovodrun` serves them: HTTP in the clear on machine 0's address, from before a generation
// starts until the next one.
//
//   PUT /SCOPE/KEY       with the value as its body
//   GET /SCOPE/KEY       200 and the value, or 404: it is asked again
//   DELETE /SCOPE/RANK   it is done with the scope, which is empty once all its ranks are
//
// Scopes are global (all ranks), local_HOST (a machine's) and cross_L (the Lth of each machine).
#ifndef LOCKSTEP_WORKER_AGENT_SERVICES_HOROVOD_STORE_H_
#define LOCKSTEP_WORKER_AGENT_SERVICES_HOROVOD_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/http/http_server.h"
#include "base/loop/event_loop.h"
#include "base/result.h"

namespace lockstep::agent {

// One generation's. Pure. Bounded: 64 MiB of scopes, keys and values, and of what they take beside.
class HorovodTable {
 public:
  HorovodTable(uint32_t machines, uint32_t processes)
      : machines_(machines), processes_(processes) {}

  HttpResponse Answer(const HttpRequest& request);

  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr size_t kEntryBytes = 512;  // what one value takes beside its bytes, at most

 private:
  struct Scope {
    std::map<std::string, std::string> values;
    std::set<size_t> done;  // ranks
  };

  HttpResponse Put(const std::string& scope, const std::string& key, const std::string& value);
  void Finish(const std::string& scope, const std::string& rank);
  size_t SizeOf(const std::string& scope) const;

  uint32_t machines_;
  uint32_t processes_;  // of each
  std::map<std::string, Scope> scopes_;
  size_t bytes_ = 0;
};

class HorovodStore {
 public:
  // `address` is machine 0's own.
  HorovodStore(EventLoop* loop, std::string address, uint32_t machines, uint32_t processes)
      : loop_(loop), address_(std::move(address)), machines_(machines), processes_(processes) {}

  // An empty table on this port, in place of the generation's before.
  Status Begin(uint32_t port);

 private:
  EventLoop* loop_;
  std::string address_;
  uint32_t machines_;
  uint32_t processes_;
  std::unique_ptr<HorovodTable> table_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace lockstep::agent

#endif  // LOCKSTEP_WORKER_AGENT_SERVICES_HOROVOD_STORE_H_
