#include "operator/controller/action_object.h"

#include <variant>

#include "base/overloaded.h"
#include "core/model/names.h"
#include "operator/controller/observe/snapshot_builder.h"
#include "operator/controller/observe/workload_object.h"
#include "operator/objects/endpoint_slice.h"
#include "operator/objects/key_secret.h"
#include "operator/objects/pod_group.h"
#include "operator/objects/service_objects.h"

namespace lockstep::control {

namespace {

// Its body, as one of the cache's Workloads is patched.
template <typename Body>
Result<std::string> OfWorkload(const JobRecord& record, const Caches& caches,
                               const std::string& name, Body body) {
  const kube::WorkloadView* workload = caches.workloads.Find({record.name().name_space, name});
  if (workload == nullptr) return Error::NotFound("the Workload is gone");
  return body(workload->json);
}

// The pod as the job's admission has it, where the job is queued.
Result<std::string> Admitted(Result<std::string> pod, const JobRecord& record,
                             const Caches& caches) {
  const std::optional<WorkloadSeen> workload = QueueOf(record, caches).workload;
  if (!pod.ok() || !workload) return pod;
  const auto flavors = caches.FlavorsOf(workload->flavors);
  if (!flavors) return Error::NotFound("a ResourceFlavor that Kueue gave it is not there");
  return OfWorkload(record, caches, workload->name,
                    [&](const std::string& json) { return AdmittedPod(*pod, json, *flavors); });
}

}  // namespace

Result<std::string> ObjectOf(const Action& action, const JobRecord& record, const Caches& caches,
                             AgentDelivery delivery) {
  return std::visit(
      Overloaded{
          [&](const MakeKey&) -> Result<std::string> {
            return KeySecretObject(record.job, record.key);
          },
          [&](const MakeNames&) -> Result<std::string> {
            return HeadlessServiceObject(record.job);
          },
          [&](const MakeCoordinatorAddress&) -> Result<std::string> {
            return CoordinatorServiceObject(record.job);
          },
          [&](const MoveCoordinatorAddress& point) -> Result<std::string> {
            return CoordinatorServicePatch(point.uid, point.attempt);
          },
          [&](const WriteSlice& write) -> Result<std::string> {
            return EndpointSliceObject(record.job, write.key, write.uid, write.endpoints);
          },
          [&](const StartMachine& create) -> Result<std::string> {
            const core::Metadata& job = record.job.metadata;
            const kube::ServiceView* service =
                caches.services.Find({job.name_space, core::CoordinatorServiceName(job.name)});
            if (service == nullptr) return Error::NotFound("the coordinator's Service is gone");
            return Admitted(PodObject(record.job, record.status,
                                      {.machine = create.machine,
                                       .attempt = create.attempt,
                                       .predecessor_dead = create.predecessor_dead,
                                       .coordinator_ip = service->cluster_ip,
                                       .key_secret = KeySecretName(record.job, record.key),
                                       .avoid_nodes = create.avoid_nodes,
                                       .spare_node = create.spare_node},
                                      delivery),
                            record, caches);
          },
          [&](const StartSpare& create) -> Result<std::string> {
            return Admitted(SparePodObject(record.job, record.status.agent.image, create.number,
                                           create.avoid_nodes, delivery, create.claims),
                            record, caches);
          },
          [&](const MakeWorkload& make) -> Result<std::string> {
            return WorkloadObject(record.job, make, delivery);
          },
          [&](const MakePodGroup& make) -> Result<std::string> {
            return PodGroupObject(record.job, make.group, make.machines,
                                  PodGroupsOf(make.group.gang).at(make.api));
          },
          [&](const ResizeWorkload& resize) -> Result<std::string> {
            return OfWorkload(record, caches, resize.name, [&](const std::string& json) {
              return WorkloadResize(json, resize);
            });
          },
          [&](const TellWorkload& tell) -> Result<std::string> {
            return OfWorkload(record, caches, tell.name, [&](const std::string& json) {
              return Result<std::string>(WorkloadCondition(json, tell, WallNow()));
            });
          },
          [&](const ReleaseWorkload& release) -> Result<std::string> {
            return OfWorkload(record, caches, release.name, [&](const std::string& json) {
              return WorkloadRelease(json, release, WallNow());
            });
          },
          [&](const AdoptWorkload& adopt) -> Result<std::string> {
            return OfWorkload(record, caches, adopt.name, [&](const std::string& json) {
              return WorkloadAdoption(json, adopt, record.job);
            });
          },
          [](const auto&) -> Result<std::string> { return Error::Internal("nothing to make"); },
      },
      action);
}

}  // namespace lockstep::control
