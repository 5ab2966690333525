// EventRecorder: what `kubectl describe` shows of a job (events.k8s.io/v1).
//
//   events.Record(job_ref, EventType::kWarning, "MachineLost", "Replace", "machine 3 ...");
//
// The same again (object, type, reason, action) within 6 minutes counts as a series of the first
// and costs a PATCH at the second, then one in 30 minutes at most. An object that causes more than
// 25 different ones in a row is heard once in 5 minutes. Events are best effort: at most 1000 wait
// to be sent, what is more or fails is dropped and counted. Record never blocks; any thread.
#ifndef LOCKSTEP_OPERATOR_KUBE_EVENTS_H_
#define LOCKSTEP_OPERATOR_KUBE_EVENTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/time.h"
#include "base/wall_time.h"

namespace lockstep::kube {

class Client;

// What an event is about.
struct ObjectRef {
  std::string api_version;
  std::string kind;
  std::string name_space;
  std::string name;
  std::string uid;

  friend auto operator<=>(const ObjectRef&, const ObjectRef&) = default;
};

enum class EventType : uint8_t { kNormal, kWarning };

struct EventOptions {
  std::string controller = "lockstep.dev/operator";
  std::string instance = {};  // this process: the Lease's identity
  std::function<Time()> now = BootTime;
  std::function<WallTime()> wall_now = WallNow;
};

class EventRecorder {
 public:
  // `client` must outlive it.
  EventRecorder(Client* client, EventOptions options);
  ~EventRecorder();

  // reason: why, in CamelCase. action: what the operator did about it, in CamelCase. note: a
  // sentence, cut to 1 KiB.
  void Record(const ObjectRef& regarding, EventType type, std::string_view reason,
              std::string_view action, std::string_view note);

  uint64_t dropped() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_EVENTS_H_
