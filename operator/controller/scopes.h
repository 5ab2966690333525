// Scopes: the parts of the cluster that this operator works on. Each is followed, read as a whole
// and begun by itself: all namespaces as one, or each of those that it was given, where what is in
// no namespace (Kueue's flavors) is one more, "", of which there are no jobs.
//
// The controller's thread.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_SCOPES_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_SCOPES_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "operator/controller/jobs/queue_reads.h"
#include "operator/kube/views.h"

namespace lockstep::control {

class Scopes {
 public:
  // Empty: all namespaces, with their nodes and with the claims of other operators.
  explicit Scopes(std::vector<std::string> namespaces) : given_(std::move(namespaces)) {
    if (given_.empty()) of_all_ = {kube::Watched::kNodes, kube::Watched::kClaims};
  }

  bool by_namespace() const { return !given_.empty(); }

  // It is read anew. What was read of the flavors stays known: they are of the cluster.
  void Begin(const std::string& scope, uint64_t round) {
    const bool open = scopes_[scope].open;
    scopes_[scope] = {.round = round, .whole = {}, .queues = {}, .open = open};
    if (!scope.empty()) scopes_[scope].queues = scopes_[""].queues;
  }
  bool IsCurrent(const std::string& scope, uint64_t round) { return scopes_[scope].round == round; }

  void OnRead(const std::string& scope, kube::Watched resource) {
    scopes_[scope].whole.insert(resource);
    ForQueues(scope, resource, [&](QueueReads& queues) { queues.OnRead(resource); });
  }
  // Whether that changes anything.
  bool OnNoQueues(const std::string& scope, kube::Watched resource, ErrorKind why) {
    bool changed = false;
    ForQueues(scope, resource, [&](QueueReads& queues) {
      const Queues before = queues.queues();
      queues.OnFailed(resource, why);
      changed |= queues.queues() != before;
    });
    return changed;
  }

  // Whether its jobs are this operator's.
  void SetOpen(const std::string& scope, bool open) { scopes_[scope].open = open; }

  // Whether the namespace's scope is known as a whole and its jobs belong to this operator.
  bool MayDecide(const std::string& name_space) const {
    const auto scope = scopes_.find(ScopeOf(name_space));
    return scope != scopes_.end() && scope->second.open && IsWhole(scope->second);
  }
  // The same, of whether there are queues.
  Queues QueuesOf(const std::string& name_space) const {
    const auto scope = scopes_.find(ScopeOf(name_space));
    return scope == scopes_.end() ? Queues::kUnknown : scope->second.queues.queues();
  }

  // Those in which something was not read yet that decisions need.
  std::vector<std::string> Unread() const {
    std::vector<std::string> found;
    for (const std::string& each : given_.empty() ? std::vector<std::string>{""} : given_) {
      const auto scope = scopes_.find(each);
      if (scope == scopes_.end() || !IsWhole(scope->second)) found.push_back(each);
    }
    return found;
  }

 private:
  struct Scope {
    uint64_t round = 0;
    std::set<kube::Watched> whole = {};  // resources that were read in this round
    QueueReads queues = {};              // likewise
    bool open = false;
  };

  std::string ScopeOf(const std::string& name_space) const {
    return by_namespace() ? name_space : "";
  }

  bool IsWhole(const Scope& scope) const {
    using kube::Watched;
    for (const Watched each :
         {Watched::kTrainingJobs, Watched::kPods, Watched::kServices, Watched::kSlices}) {
      if (!scope.whole.contains(each)) return false;
    }
    for (const Watched each : of_all_) {
      if (!scope.whole.contains(each)) return false;
    }
    return true;
  }

  // Flavors are every scope's, Workloads those of a namespace alone.
  template <typename Change>
  void ForQueues(const std::string& scope, kube::Watched resource, Change change) {
    if (resource == kube::Watched::kWorkloads) return change(scopes_[scope].queues);
    if (resource != kube::Watched::kFlavors) return;
    for (auto& [_, each] : scopes_) change(each.queues);
  }

  const std::vector<std::string> given_;
  std::vector<kube::Watched> of_all_;
  std::map<std::string, Scope> scopes_;
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_SCOPES_H_
