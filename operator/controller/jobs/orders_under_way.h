// OrdersUnderWay: how many jobs have writes under way, by namespace. Each has one write at least,
// so that these many keep the client busy. The other jobs wait in the queue, where what happens to
// them meanwhile is one decision, and where the urgent go first.
//
// A namespace never has all places: however many jobs it has, another namespace's next job finds
// one. What is urgent waits for no place of its namespace.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_JOBS_ORDERS_UNDER_WAY_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_JOBS_ORDERS_UNDER_WAY_H_

#include <map>
#include <string>

#include "operator/kube/fair_queue.h"

namespace lockstep::control {

class OrdersUnderWay {
 public:
  bool MayBegin(const std::string& name_space, kube::Priority priority) const {
    if (priority == kube::Priority::kUrgent) return all_ < kMostUrgent;
    return all_ < kMost && Of(name_space) < kMostOfNamespace;
  }
  void Begin(const std::string& name_space) {
    ++all_;
    ++by_namespace_[name_space];
  }
  void End(const std::string& name_space) {
    --all_;
    if (--by_namespace_[name_space] == 0) by_namespace_.erase(name_space);
  }

 private:
  static constexpr int kMostOfNamespace = 12;
  static constexpr int kMost = 24;
  static constexpr int kMostUrgent = 48;

  int Of(const std::string& name_space) const {
    const auto found = by_namespace_.find(name_space);
    return found == by_namespace_.end() ? 0 : found->second;
  }

  int all_ = 0;
  std::map<std::string, int> by_namespace_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_JOBS_ORDERS_UNDER_WAY_H_
