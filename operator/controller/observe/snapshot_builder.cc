#include "operator/controller/observe/snapshot_builder.h"

#include <algorithm>

#include "base/text/endpoint.h"
#include "core/model/names.h"
#include "operator/controller/observe/observe_pod.h"
#include "operator/controller/observe/workload_object.h"
#include "operator/objects/endpoint_slice.h"
#include "operator/policy/facts/machines.h"
#include "operator/policy/policies.h"
#include "operator/policy/status/advice.h"

namespace lockstep::control {
namespace {

constexpr size_t kMostAvoided = 50;  // by name, in each pod

bool LacksRoom(const MachineObservation& seen) {
  return seen.stage == Stage::kUnplaced && !LackingResource(seen.unplaced_because).empty();
}

std::map<std::string, Quantity> LargestOf(const kube::Cache<kube::NodeView>& nodes) {
  std::map<std::string, Quantity> largest;
  nodes.ForEach([&](const kube::NodeView& node) {
    for (const auto& [resource, amount] : node.allocatable) {
      Quantity& most = largest[resource];
      most = std::max(most, amount);
    }
  });
  return largest;
}

LeadBy LeadByOf(const kube::ServiceView& service) {
  return service.selects ? LeadBy::kLabels : LeadBy::kSlices;
}

}  // namespace

Snapshot SnapshotOf(const JobRecord& record, const Caches& caches, bool watches_nodes) {
  const kube::ObjectName key = record.name();
  Snapshot snapshot;
  snapshot.job = &record.job;
  snapshot.problems = record.problems;
  snapshot.namespace_name = key.name_space;
  snapshot.uid = record.uid;
  snapshot.generation = record.generation;
  snapshot.created = record.created;
  snapshot.deleting = record.deleting;
  snapshot.status = record.status;
  const std::set<std::string> tolerated = ToleratedTaints(record.job.spec.template_);
  for (const kube::PodView* pod : caches.pods.ByJob(key)) {
    if (pod->meta.owner_uid != record.uid) continue;
    const bool on_node = watches_nodes && !pod->node.empty();
    std::vector<MachineObservation>& seen = pod->spare < 0 ? snapshot.machines : snapshot.spares;
    seen.push_back(ObservationOf(
        *pod, on_node ? StateOf(caches.nodes.Find({"", pod->node})) : NodeState::kWell));
    if (on_node) {
      seen.back().sick = caches.sick.WhySick(pod->node, tolerated);
      seen.back().sick_since = caches.sick.SickSince(pod->node);
    }
  }
  if (watches_nodes) {
    snapshot.sick_nodes = caches.sick.Schedulable(kMostAvoided);
    snapshot.well_nodes = caches.sick.well();
  }
  if (watches_nodes && std::ranges::any_of(snapshot.machines, LacksRoom)) {
    snapshot.largest = LargestOf(caches.nodes);
  }
  if (const kube::ServiceView* service =
          caches.OwnService({key.name_space, core::ServiceName(key.name)}, record.uid)) {
    snapshot.names = {service->meta.uid, LeadByOf(*service)};
  }
  if (const kube::ServiceView* service =
          caches.OwnService({key.name_space, core::CoordinatorServiceName(key.name)}, record.uid)) {
    snapshot.coordinator_address = {service->meta.uid, service->cluster_ip, LeadByOf(*service),
                                    service->selector_attempt.value_or(0)};
  }
  for (const kube::SliceView* slice : caches.slices.ByJob(key)) {
    if (slice->meta.owner_uid != record.uid) continue;
    if (const std::optional<core::SliceKey> of = SliceKeyOf(key.name, slice->meta.name)) {
      snapshot.slices[*of] = {slice->meta.uid, slice->endpoints};
    }
  }
  snapshot.coordinator = record.coordinator;
  snapshot.member = record.member;
  snapshot.notes = record.notes;
  snapshot.memory = record.memory;
  return snapshot;
}

QueueSeen QueueOf(const JobRecord& record, const Caches& caches) {
  QueueSeen queue;
  queue.prebuilt = PrebuiltWorkload(record.job);
  std::vector<WorkloadSeen> workloads;
  for (const kube::WorkloadView* each :
       caches.OwnWorkloads(record.name(), record.uid, queue.prebuilt)) {
    workloads.push_back(ReadWorkload(each->json));
  }
  Sort(std::move(workloads), &queue);
  return queue;
}

void AddQueue(const JobRecord& record, const Caches& caches, Queues queues, Snapshot* snapshot) {
  const auto label = record.job.metadata.labels.find(kQueueLabel);
  QueueSeen queue;
  // Facts that were read before they were gone, or by an earlier leader, no longer hold.
  if (queues == Queues::kThere) queue = QueueOf(record, caches);
  queue.queues = queues;
  queue.prebuilt = PrebuiltWorkload(record.job);
  if (label != record.job.metadata.labels.end()) queue.name = label->second;
  if (queue.name.empty() && !queue.workload) return;
  if (queue.workload && queue.workload->admitted && record.status.epoch == 0) {
    const auto flavors = caches.FlavorsOf(queue.workload->flavors);
    const kube::WorkloadView* own =
        caches.workloads.Find({record.name().name_space, queue.workload->name});
    std::string conflict =
        flavors ? AdmissionConflict(record.job, own->json, *flavors) : std::string();
    if (!conflict.empty()) {
      core::Problem problem;
      problem.message = std::move(conflict);
      snapshot->problems.push_back(std::move(problem));
    }
  }
  snapshot->queue = std::move(queue);
}

gang::GangPeers PeersOf(const JobRecord& record, const Snapshot& snapshot) {
  gang::GangPeers peers;
  peers.job_uid = record.uid;
  peers.key = record.key;
  peers.machine_lost_after = record.job.spec.failure_policy.machine_lost_after;
  if (snapshot.deleting || IsFinished(snapshot.status)) return peers;
  for (const Machine& machine : Machines(snapshot)) {
    if (machine.life != Life::kRunning || machine.seen->address.empty()) continue;
    peers.members.push_back(
        {machine.index, machine.attempt, EndpointText(machine.seen->address, core::kGangPort)});
  }
  return peers;
}

}  // namespace lockstep::control
