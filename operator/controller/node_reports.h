// NodeReports: what gangs saw of a node, as the node's condition LockstepSuspect or as a taint. Off
// unless the operator is told for how long a report stays.
//
// The condition is applied with a field manager of its own, so that kubelet and other reporters
// keep theirs. A taint is added to the node's list by a patch that names the node's version. A
// report is taken back once no gang has seen anything for that long. A new leader knows nothing of
// what was seen before: it takes back what it finds after the same time.
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
inline constexpr std::string_view kSuspectTaint = "lockstep.dev/suspect";

struct NodeReportOptions {
  Duration stay{};         // 0: off
  std::string taint = {};  // effect of the taint that is set in place of the condition; "": none
};

class NodeReports {
 public:
  // `client` outlives it.
  NodeReports(EventLoop* loop, kube::Client* client, NodeReportOptions options);

  bool enabled() const { return options_.stay > Duration::zero(); }
  // Begins to write, as the leader does.
  void Lead(Time now) { born_ = now; }
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
    Time again = kNever;    // when a write that failed is tried again
  };

  void Step();
  void Write(const std::string& node, Report& report);
  void WriteCondition(const std::string& node, const Report& report);
  void WriteTaint(const std::string& node, bool set);
  void OnWritten(const std::string& node, const kube::ApiResult<std::string>& result);

  EventLoop* loop_;
  kube::Client* client_;
  NodeReportOptions options_;
  Time born_ = kNever;
  std::map<std::string, Report> reports_;
  WakeTimer timer_;
  Lifetime lifetime_;
};

// The body of the apply patch that sets the condition; with an empty `evidence` the one that takes
// it back.
std::string ConditionPatch(const std::string& node, const std::string& evidence,
                           const std::string& message, WallTime since);
// The JSON patch that sets or removes our taint in this node, as the API server answered it; "": it
// is so already. Invalid: the answer is no node.
Result<std::string> TaintPatch(std::string_view node, const std::string& effect, bool set);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_NODE_REPORTS_H_
