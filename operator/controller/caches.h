// Caches: the cluster as this operator last saw it. They belong to the event loop's thread.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_CACHES_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_CACHES_H_

#include <string>

#include "operator/kube/views.h"
#include "operator/kube/watch/cache.h"

namespace lockstep::control {

struct Caches {
  kube::Cache<kube::JobView> jobs;
  kube::Cache<kube::PodView> pods;
  kube::Cache<kube::ServiceView> services;
  kube::Cache<kube::SliceView> slices;
  kube::Cache<kube::NodeView> nodes;

  // Null unless it is there and belongs to the job of this UID.
  const kube::ServiceView* OwnService(const kube::ObjectName& name, const std::string& uid) const {
    const kube::ServiceView* service = services.Find(name);
    return service != nullptr && service->meta.owner_uid == uid ? service : nullptr;
  }
};

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_CACHES_H_
