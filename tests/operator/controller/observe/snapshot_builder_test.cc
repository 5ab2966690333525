#include "operator/controller/observe/snapshot_builder.h"

#include <gtest/gtest.h>

#include <string>

#include "core/model/names.h"
#include "tests/operator/policy/make_job.h"

namespace lockstep::control {
namespace {

class SnapshotBuilderTest : public testing::Test {
 protected:
  SnapshotBuilderTest() {
    record_.uid = "uid";
    record_.job.metadata.name = "gpt";
    record_.job.metadata.name_space = "ns";
    record_.job.spec.num_machines = 2;
    record_.status.attempts.Set(0, 1);
    record_.status.attempts.Set(1, 1);
  }

  template <typename T>
  static void Put(kube::Cache<T>* cache, T view) {
    kube::Batch<T> batch;
    batch.events.push_back({kube::EventKind::kAdded, std::move(view)});
    cache->Apply(std::move(batch), [](const T*, const T*) {});
  }
  static kube::ObjectMeta MetaOf(const std::string& name, const std::string& owner) {
    kube::ObjectMeta meta;
    meta.name = name;
    meta.name_space = "ns";
    meta.owner_uid = owner;
    return meta;
  }
  void PutPod(int machine, const std::string& owner, const std::string& node = "") {
    kube::PodView pod;
    pod.meta = MetaOf("gpt-" + std::to_string(machine) + "-of-" + owner, owner);
    pod.job = "gpt";
    pod.machine = machine;
    pod.attempt = 1;
    pod.phase = kube::PodPhase::kRunning;
    pod.worker.kind = kube::ContainerState::Kind::kRunning;
    pod.node = node;
    pod.pod_ip = "10.0.0." + std::to_string(machine);
    Put(&caches_.pods, pod);
  }
  Snapshot Take(bool watches_nodes = true) const {
    return SnapshotOf(record_, caches_, watches_nodes);
  }

  JobRecord record_;
  Caches caches_;
};

TEST_F(SnapshotBuilderTest, SparesStandBesideTheMachinesAndAreNotAsked) {
  PutPod(0, "uid");
  kube::PodView spare;
  spare.meta = MetaOf("gpt-spare0", "uid");
  spare.job = "gpt";
  spare.spare = 0;
  spare.worker.kind = kube::ContainerState::Kind::kRunning;
  spare.pod_ip = "10.0.0.9";
  Put(&caches_.pods, spare);
  const Snapshot snapshot = Take();
  ASSERT_EQ(snapshot.machines.size(), 1U);
  ASSERT_EQ(snapshot.spares.size(), 1U);
  EXPECT_EQ(snapshot.spares[0].spare, 0);
  EXPECT_EQ(PeersOf(record_, snapshot).members.size(), 1U);
}

TEST_F(SnapshotBuilderTest, MachinesOnASickNodeSayWhyUnlessTheJobToleratesTheTaint) {
  PutPod(0, "uid", "a");
  PutPod(1, "uid", "b");
  for (const char* name : {"a", "b", "c"}) {
    kube::NodeView node;
    node.meta.name = name;
    node.ready = true;
    if (node.meta.name == "b") node.taints = {"nvidia.com/gpu-error:PreferNoSchedule"};
    caches_.sick.OnNode(name, &node, Time{} + seconds(7));
    Put(&caches_.nodes, node);
  }
  const Snapshot snapshot = Take();
  EXPECT_EQ(snapshot.machines[0].sick, "");
  EXPECT_EQ(snapshot.machines[1].sick, "has taint nvidia.com/gpu-error");
  EXPECT_EQ(snapshot.machines[1].sick_since, Time{} + seconds(7));
  EXPECT_EQ(snapshot.sick_nodes, std::vector<std::string>{"b"});
  EXPECT_EQ(snapshot.well_nodes, 2U);
  EXPECT_EQ(Take(false).machines[1].sick, "");
  record_.job.spec.template_ =
      MakeJob::Yaml("spec: {tolerations: [{key: nvidia.com/gpu-error, operator: Exists}]}");
  EXPECT_EQ(Take().machines[1].sick, "");
}

TEST_F(SnapshotBuilderTest, OnlyPodsAndServicesOfThisUidAreTheJobs) {
  PutPod(0, "uid");
  PutPod(1, "another");
  for (const auto& [name, owner] : {std::pair(core::ServiceName("gpt"), "another"),
                                    std::pair(core::CoordinatorServiceName("gpt"), "uid")}) {
    kube::ServiceView service;
    service.meta = MetaOf(name, owner);
    service.job = "gpt";
    service.cluster_ip = "10.1.1.1";
    Put(&caches_.services, service);
  }
  for (const auto& [name, owner] :
       {std::pair("gpt-0", "another"), std::pair("gpt-coordinator", "uid"),
        std::pair("gpt-x2b4c", "uid")}) {
    kube::SliceView slice;
    slice.meta = MetaOf(name, owner);
    slice.meta.uid = "uid-of-slice";
    slice.job = "gpt";
    slice.endpoints = 7;
    Put(&caches_.slices, slice);
  }
  const Snapshot snapshot = Take();
  ASSERT_EQ(snapshot.machines.size(), 1U);
  EXPECT_EQ(snapshot.machines[0].name, "gpt-0-of-uid");
  EXPECT_FALSE(snapshot.names);
  ASSERT_TRUE(snapshot.coordinator_address);
  EXPECT_EQ(snapshot.coordinator_address->address, "10.1.1.1");
  EXPECT_EQ(snapshot.coordinator_address->by, LeadBy::kSlices);
  ASSERT_EQ(snapshot.slices.size(), 1U);
  EXPECT_EQ(snapshot.slices.begin()->first, core::SliceKey{.coordinator = true});
  EXPECT_EQ(snapshot.slices.begin()->second.uid, "uid-of-slice");
  EXPECT_EQ(snapshot.slices.begin()->second.endpoints, 7U);
}

TEST_F(SnapshotBuilderTest, ServicesThatSelectPodsLeadByTheirLabels) {
  for (const auto& name : {core::ServiceName("gpt"), core::CoordinatorServiceName("gpt")}) {
    kube::ServiceView service;
    service.meta = MetaOf(name, "uid");
    service.job = "gpt";
    service.selects = true;
    service.selector_attempt = 4;
    Put(&caches_.services, service);
  }
  const Snapshot snapshot = Take();
  ASSERT_TRUE(snapshot.names);
  EXPECT_EQ(snapshot.names->by, LeadBy::kLabels);
  ASSERT_TRUE(snapshot.coordinator_address);
  EXPECT_EQ(snapshot.coordinator_address->by, LeadBy::kLabels);
  EXPECT_EQ(snapshot.coordinator_address->attempt, 4U);
}

TEST_F(SnapshotBuilderTest, ANodeThatIsNotThereIsGoneUnlessNodesAreNotWatched) {
  PutPod(0, "uid", "node");
  EXPECT_EQ(Take().machines[0].node_state, NodeState::kGone);
  EXPECT_EQ(Take(false).machines[0].node_state, NodeState::kWell);
  kube::NodeView node;
  node.meta.name = "node";
  node.unreachable = true;
  Put(&caches_.nodes, node);
  EXPECT_EQ(Take().machines[0].node_state, NodeState::kUnreachable);
}

TEST_F(SnapshotBuilderTest, PeersAreTheMachinesThatRunUntilTheJobIsOver) {
  PutPod(1, "uid");
  const gang::GangPeers peers = PeersOf(record_, Take());
  ASSERT_EQ(peers.members.size(), 1U);
  EXPECT_EQ(peers.members[0].machine, 1U);
  EXPECT_EQ(peers.members[0].address, "10.0.0.1:" + std::to_string(core::kGangPort));

  record_.deleting = true;
  EXPECT_TRUE(PeersOf(record_, Take()).members.empty());
  record_.deleting = false;
  record_.status.state = core::JobState::kSucceeded;
  EXPECT_TRUE(PeersOf(record_, Take()).members.empty());
}

}  // namespace
}  // namespace lockstep::control
