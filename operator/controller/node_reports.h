// NodeReports: what gangs saw of a node, as the node's condition LockstepSuspect. Off unless the
// operator is told for how long a report stays.
//
// The condition is applied with a field manager of its own, so that kubelet and other reporters
// keep theirs. It is taken back once no gang has seen anything for that long. A new leader knows
// nothing of what was seen before: it counts the time of each condition from when it began to lead.
// It sets no taint, because one outage of a network would then close many nodes to all pods.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_NODE_REPORTS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_NODE_REPORTS_H_

#include <map>
#include <string>
#include <string_view>

#include "base/loop/event_loop.h"
#include "base/loop/lifetime.h"
#include "base/loop/wake_timer.h"
#include "base/time.h"
#include "base/wall_time.h"
#include "operator/kube/client.h"
#include "operator/kube/views.h"

namespace lockstep::control {

inline constexpr std::string_view kSuspectCondition = "LockstepSuspect";

struct NodeReportOptions {
  Duration stay{};  // 0: off
};

class NodeReports {
 public:
  // `client` outlives it.
  NodeReports(EventLoop* loop, kube::Client* client, NodeReportOptions options);

  bool enabled() const { return options_.stay > Duration::zero(); }
  // Begins to write, as the leader does.
  void Lead(Time now);
  // A gang has seen something: `evidence` is one word, `message` has nothing in a job's own words.
  void Note(Time now, const std::string& node, const std::string& evidence,
            const std::string& message);
  // The node as it is; null: it is gone.
  void OnNode(Time now, const std::string& name, const kube::NodeView* node);

 private:
  struct Report {
    std::string evidence;
    std::string message;
    Time until{};
    WallTime since{};
    bool written = false;   // and not taken back since
    bool removing = false;  // it is to be taken back
    bool busy = false;      // a write is under way
    Time again = kNever;    // when it is written, or a write that failed is tried again
    int failures = 0;       // in a row
  };

  void Step();
  void Write(const std::string& node, Report& report);
  void OnWritten(const std::string& node, const kube::ApiResult<std::string>& result);

  EventLoop* loop_;
  kube::Client* client_;
  NodeReportOptions options_;
  bool leads_ = false;
  std::map<std::string, Report> reports_;
  WakeTimer timer_;
  Lifetime lifetime_;
};

// The body of the apply patch that sets the condition; with an empty `evidence` the one that takes
// it back.
std::string ConditionPatch(const std::string& node, const std::string& evidence,
                           const std::string& message, WallTime since);
// The wait after so many failed writes of a node in a row: 10 s, then twice as long each time, up
// to 43 minutes.
Duration RetryAfter(int failures);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_NODE_REPORTS_H_
