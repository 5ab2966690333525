// Caches: the cluster as this operator last saw it. They belong to the event loop's thread.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_CACHES_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_CACHES_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "operator/controller/observe/sick_nodes.h"
#include "operator/kube/views.h"
#include "operator/kube/watch/cache.h"

namespace lockstep::control {

struct Caches {
  kube::Cache<kube::JobView> jobs;
  kube::Cache<kube::PodView> pods;
  kube::Cache<kube::ServiceView> services;
  kube::Cache<kube::SliceView> slices;
  kube::Cache<kube::NodeView> nodes;
  kube::Cache<kube::WorkloadView> workloads;
  kube::Cache<kube::FlavorView> flavors;
  kube::Cache<kube::ClaimView> claims;
  SickNodes sick;  // of `nodes`

  // Null unless it is there and belongs to the job of this UID.
  const kube::ServiceView* OwnService(const kube::ObjectName& name, const std::string& uid) const {
    const kube::ServiceView* service = services.Find(name);
    return service != nullptr && service->meta.owner_uid == uid ? service : nullptr;
  }

  // The Workload of the job of this UID: made for it, or an existing one of this name, which may
  // have no owner yet.
  std::vector<const kube::WorkloadView*> OwnWorkloads(const kube::ObjectName& job,
                                                      const std::string& uid,
                                                      const std::string& prebuilt) const {
    std::vector<const kube::WorkloadView*> found;
    for (const kube::WorkloadView* workload : workloads.ByJob(job)) {
      const kube::ObjectMeta& meta = workload->meta;
      const bool own = meta.owner_uid == uid;
      if (prebuilt.empty() ? own : meta.name == prebuilt && (own || meta.owner_uid.empty())) {
        found.push_back(workload);
      }
    }
    return found;
  }
  // The objects of the flavors that it was given; absent while one of them is not known.
  std::optional<std::vector<std::string>> FlavorsOf(
      const std::map<std::string, std::string>& names_by_resource) const {
    std::map<std::string, std::string> objects;
    for (const auto& [resource, name] : names_by_resource) {
      const kube::FlavorView* flavor = flavors.Find({"", name});
      if (flavor == nullptr) return std::nullopt;
      objects[name] = flavor->json;
    }
    std::vector<std::string> found;
    for (auto& [name, json] : objects) found.push_back(std::move(json));
    return found;
  }
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_OBSERVE_CACHES_H_
