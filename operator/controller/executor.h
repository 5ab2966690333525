// Executor: carries out one Decision against the API server: the intent alone, or all actions, a
// few at a time, and then the status. It makes no decision and keeps no state.
//
// A replacement machine, and a stop of a machine, goes before the machines of a new gang.
//
// Writes are safe to repeat: names are deterministic, deletions name a UID, statuses the
// resourceVersion they were made from.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_EXECUTOR_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_EXECUTOR_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "operator/kube/client.h"
#include "operator/kube/events.h"
#include "operator/kube/views.h"
#include "operator/policy/facts/decision.h"

namespace lockstep::control {

// The job that a Decision is about, and what is made for it.
struct Order {
  kube::ObjectName job;
  std::string uid;
  std::string resource_version;  // that the decision was made from
  Decision decision;
  // The JSON of what a Make, Move or Start action makes.
  std::function<Result<std::string>(const Action&)> body_of;
};

// A write that failed for a reason other than the object itself.
struct WriteTrouble {
  std::string object;  // "pod gpt-0"; "" for a change
  std::string message;
  bool passing = false;  // another wrote at the same time: trying again is all there is to do
};

// The result of an order.
struct WriteResult {
  struct Written {
    kube::Watched resource;
    std::string version;
  };
  std::vector<Written> written;  // the caches must come this far before the next decision
  std::string job_version;       // of the job, once the status is written
  bool status_written = false;   // the intent or the status, if there was one
  bool complete = true;          // false: something failed; to be decided again, later
  bool uncertain = false;    // a write may have been done without an answer, or met a newer object
  bool job_changed = false;  // the status met a newer job; all else that is known of it holds
  std::optional<WriteTrouble> trouble;  // the last write that failed, where not complete
  bool key_made = false;
  std::optional<uint32_t> grouped_in;  // the gang's PodGroup is there
  std::string ungrouped;               // this PodGroup is gone
  std::optional<GroupHeed> heed;
  std::vector<MachineAttempt> pods_made;
  bool made_something = false;  // a create succeeded
  bool spare_made = false;
  std::optional<Refusal> refusal;        // why something can't be made
  std::optional<Refusal> spare_refusal;  // or a spare
};

class Executor {
 public:
  // All must outlive it; `loop` is where `done` is called.
  Executor(EventLoop* loop, kube::Client* client, kube::EventRecorder* events);

  // Calls `done` once, from the loop, never from within. Several orders may be under way, but only
  // one of a job.
  void Carry(Order order, std::function<void(WriteResult)> done);

 private:
  class Run;
  EventLoop* loop_;
  kube::Client* client_;
  kube::EventRecorder* events_;
  Lifetime lifetime_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_EXECUTOR_H_
