// QueueReads: whether the cluster has queues, from what became of the watches of Kueue's two types.
// Each is tried by itself, and read again only by itself: that one fails says nothing of the other.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_JOBS_QUEUE_READS_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_JOBS_QUEUE_READS_H_

#include <set>

#include "base/result.h"
#include "operator/kube/views.h"
#include "operator/policy/facts/queue.h"

namespace lockstep::control {

class QueueReads {
 public:
  // kWorkloads or kFlavors was read as a whole.
  void OnRead(kube::Watched which) {
    whole_.insert(which);
    if (AllRead()) failed_ = false;
  }
  // It cannot be read or followed. kDenied, after it was read: what was read holds.
  void OnFailed(kube::Watched which, ErrorKind why) {
    if (why == ErrorKind::kDenied && whole_.contains(which)) return;
    whole_.erase(which);
    failed_ = true;
  }

  Queues queues() const {
    if (AllRead()) return Queues::kThere;
    return failed_ ? Queues::kAbsent : Queues::kUnknown;
  }

 private:
  bool AllRead() const {
    return whole_.contains(kube::Watched::kWorkloads) && whole_.contains(kube::Watched::kFlavors);
  }

  std::set<kube::Watched> whole_;
  bool failed_ = false;  // one of them, since both were read last
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_JOBS_QUEUE_READS_H_
