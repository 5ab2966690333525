// SickNodes: the nodes that machines should leave, and why, by what others report of them: a
// cordon, taints, conditions and the annotation lockstep.dev/suspect. One thread at a time.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SICK_NODES_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SICK_NODES_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "core/text/node.h"
#include "operator/kube/views.h"

namespace lockstep::control {

// What makes a node sick.
struct SicknessSigns {
  bool cordon = true;
  // Keys of taints; "*" at the end stands for any rest.
  std::vector<std::string> taints = {"nvidia.com/gpu-error",
                                     "nvidia.com/gpu-xid-error",
                                     "nvidia.com/gpu-nvlink-error",
                                     "nvidia.com/syslog-xid-error",
                                     "karpenter.sh/disrupted",
                                     "ToBeDeletedByClusterAutoscaler",
                                     "cloud.google.com/impending-node-termination",
                                     "aws-node-termination-handler/*",
                                     "node.cloudprovider.kubernetes.io/shutdown"};
  std::vector<std::string> conditions = {"KernelDeadlock=True", "ReadonlyFilesystem=True",
                                         "GpuHealthy=False", "AcceleratedHardwareReady=False"};
};

// Keys of taints that a pod template tolerates by name, and for any time.
std::set<std::string> ToleratedTaints(const core::Node& pod_template);

class SickNodes {
 public:
  explicit SickNodes(SicknessSigns signs = {}) : signs_(std::move(signs)) {}

  // A node was added, has changed or is gone (null). True: its signs changed.
  bool OnNode(const std::string& name, const kube::NodeView* node, Time now);
  // "is cordoned"; "": the node is well for pods that tolerate these taints by name.
  std::string WhySick(const std::string& node, const std::set<std::string>& tolerated) const;
  // Since when it has had signs, whatever they were.
  Time SickSince(const std::string& node) const;
  // Sick nodes that the scheduler may choose all the same.
  std::vector<std::string> Schedulable(size_t most) const;
  // Nodes that are ready, schedulable and not sick.
  size_t well() const { return well_.size(); }

 private:
  struct Sign {
    std::string taint;  // its key; "": another sign
    std::string what;   // "has taint nvidia.com/gpu-error"

    friend bool operator==(const Sign&, const Sign&) = default;
  };

  std::vector<Sign> SignsOf(const kube::NodeView& node) const;

  SicknessSigns signs_;
  std::map<std::string, std::vector<Sign>> sick_;
  std::map<std::string, Time> since_;  // of each that is sick
  std::set<std::string> schedulable_;
  std::set<std::string> well_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_SICK_NODES_H_
