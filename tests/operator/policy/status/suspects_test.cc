#include "operator/policy/status/status_policies.h"
#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::SuspectNode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::string> Suspects(const core::JobStatus& status) {
  std::vector<std::string> suspects;
  for (const SuspectNode& each : status.suspect_nodes) {
    suspects.push_back(each.node + " " + each.evidence + " " + std::to_string(each.count));
  }
  return suspects;
}

Scene Running() {
  Scene scene(MakeJob("gpt").Machines(3));
  scene.Run();
  return scene;
}

// A rank of the machine failed, and the gang runs again.
void Fail(Scene& scene, int machine, uint32_t generation,
          core::Cause cause = core::Cause::kUnkillable) {
  scene.Pass(seconds(2));
  core::GangStatus& gang = scene.Report(core::CoordinatorPhase::kRunning);
  gang.generation = {1, generation};
  gang.last_failure.cause = cause;
  gang.last_failure.machine = machine;
  gang.last_failure.rank = machine;
  gang.last_failure.message = "rank failed before generation " + std::to_string(generation);
  scene.Settle();
}

TEST(SuspectNodes, ALostMachineIsEvidenceAndADrainedOneIsNot) {
  Scene scene = Running();
  scene.machine(1).end = Killed(9);
  scene.Make(scene.Settle());
  EXPECT_THAT(Suspects(scene.status()), ElementsAre("node-1 Lost 1"));
  EXPECT_THAT(scene.status().suspect_nodes[0].message, HasSubstr("killed by signal 9"));
  EXPECT_TRUE(scene.status().suspect_nodes[0].last);
  scene.machine(2).leave_by = scene.now.wall + seconds(1);
  scene.machine(2).end = Exited(143);
  scene.Make(scene.Settle());
  EXPECT_THAT(Suspects(scene.status()), ElementsAre("node-1 Lost 1"));
}

TEST(SuspectNodes, TheWorstIsFirst) {
  Scene scene = Running();
  for (int i = 0; i < 3; ++i) {
    scene.machine(i == 0 ? 1 : 2).end = Killed(9);
    scene.Make(scene.Settle());
    scene.Pass(minutes(2));
    scene.Make(scene.Settle());
  }
  EXPECT_THAT(Suspects(scene.status()), ElementsAre("node-2 Lost 2", "node-1 Lost 1"));
}

TEST(SuspectNodes, FailuresOfRanksAreEvidenceFromTheSecondOnANode) {
  Scene scene = Running();
  Fail(scene, 1, 2);
  Fail(scene, 2, 3);
  EXPECT_THAT(Suspects(scene.status()), IsEmpty());
  Fail(scene, 1, 4);
  EXPECT_THAT(Suspects(scene.status()), ElementsAre("node-1 Failed 1"));
  EXPECT_THAT(scene.status().suspect_nodes[0].message, HasSubstr("generation 4"));
  scene.Settle();
  EXPECT_THAT(Suspects(scene.status()), ElementsAre("node-1 Failed 1")) << "it is told once";
}

TEST(SuspectNodes, FailuresOfTheProgramAreNoEvidence) {
  Scene scene = Running();
  for (uint32_t i = 2; i < 5; ++i) Fail(scene, 1, i, core::Cause::kProcessExit);
  EXPECT_THAT(Suspects(scene.status()), IsEmpty());
}

TEST(SuspectNodes, AStragglerIsEvidenceOnce) {
  Scene scene = Running();
  scene.Pass(seconds(2));
  core::GangStatus& gang = scene.Report(core::CoordinatorPhase::kRunning);
  gang.generation = {1, 1};
  gang.straggler = core::Straggler{1, 0.3, 40};
  scene.Settle();
  scene.Pass(seconds(2));
  scene.Settle();
  EXPECT_THAT(Suspects(scene.status()), ElementsAre("node-1 Straggler 1"));
}

TEST(SuspectNodes, OfManyTheWeakestMakesRoom) {
  const core::TrainingJob job;
  Snapshot snapshot;
  snapshot.job = &job;
  ReconcileContext context(snapshot, Now{});
  for (size_t i = 0; i <= core::kMaxSuspectNodes; ++i) {
    const std::string node = "node-" + std::to_string(i);
    for (int n = 0; n < (i == 0 ? 2 : 1); ++n) NoteSuspect(context, node, kLostThere, "lost");
  }
  EXPECT_THAT(context.next.suspect_nodes, SizeIs(core::kMaxSuspectNodes));
  EXPECT_EQ(context.next.suspect_nodes.front().node, "node-0");
  EXPECT_EQ(context.next.suspect_nodes.back().node, "node-20");
}

}  // namespace
}  // namespace lockstep::control
