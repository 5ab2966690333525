#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using testing::Contains;
using testing::HasSubstr;

// The gang is made; these machines have nodes, and their agents do not run.
void Placed(Scene& scene, std::initializer_list<int> machines) {
  while (scene.machines().empty()) scene.Make(scene.Settle());
  for (const int machine : machines) {
    scene.machine(machine).stage = Stage::kPlaced;
    scene.machine(machine).ready = false;
    scene.machine(machine).started.reset();
  }
}

StartTrouble NoImage(const char* reason) {
  return {true, reason, "train:7: not found", "worker", Payer::kSuspect};
}

TEST(Starting, AnImageThatCannotBeHadOnANodeIsTriedOnAnotherAfterStartTimeout) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().health.start_timeout = seconds(5);
  Placed(scene, {1});
  scene.machine(1).trouble = NoImage("ErrImagePull");
  scene.Settle();
  scene.Pass(seconds(3));
  scene.machine(1).trouble = NoImage("ImagePullBackOff");
  EXPECT_EQ(scene.Decide().wake, scene.now.boot + seconds(2)) << "it is the same trouble";
  scene.Pass(seconds(2));
  scene.Settle();
  EXPECT_EQ(scene.status().attempts.Of(0), 1U);
  EXPECT_EQ(scene.status().attempts.Of(1), 2U);
  EXPECT_EQ(scene.status().counters.replacements, 1U);
  EXPECT_THAT(scene.status().last_failure->failure.message,
              HasSubstr("did not start on node node-1 within startTimeout: container worker: "
                        "ImagePullBackOff: train:7: not found"));
  std::vector<StartMachine> made;
  for (int i = 0; i < 60 && made.empty(); ++i) {
    const Decision decision = scene.Settle();
    made = All<StartMachine>(decision);
    scene.Make(decision);
    scene.Pass(seconds(1));
  }
  ASSERT_EQ(made.size(), 1U);
  EXPECT_THAT(made[0].avoid_nodes, Contains("node-1"));
}

TEST(Starting, AnImageThatNoNodeCanHaveIsTheJobsFailure) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().failure_policy.max_restarts = 0;
  Placed(scene, {0, 1});
  for (int i = 0; i < 2; ++i) scene.machine(i).trouble = NoImage("ImagePullBackOff");
  scene.Settle();
  scene.Pass(minutes(10));
  scene.Settle();
  EXPECT_EQ(scene.status().state, core::JobState::kFailed);
  EXPECT_EQ(scene.status().verdict->cause, core::Cause::kConfiguration);
  EXPECT_EQ(scene.status().verdict->exit_code, 78);
  EXPECT_THAT(scene.status().reason, HasSubstr("train:7: not found; the same on 2 nodes"));
}

TEST(Starting, APullThatGoesOnIsWaitedFor) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.spec().health.start_timeout = seconds(5);
  Placed(scene, {1});
  scene.Settle();
  scene.Pass(hours(3));
  EXPECT_FALSE(scene.Decide().intent);
}

TEST(Starting, TroubleCountsFromItsBeginningAndAgainAfterProgress) {
  Scene scene(MakeJob("gpt").Machines(2));
  Placed(scene, {1});
  scene.Settle();
  scene.Pass(hours(1));  // a long pull, of the first of two images
  scene.machine(1).trouble = NoImage("ErrImagePull");
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(minutes(9));
  scene.machine(1).trouble = StartTrouble{true, "CreateContainerError", "", "worker"};
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(minutes(9));
  scene.machine(1).trouble.reset();
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(minutes(9));
  scene.machine(1).trouble = StartTrouble{true, "CreateContainerError", "", "worker"};
  EXPECT_FALSE(scene.Decide().intent);
  scene.Pass(minutes(10));
  EXPECT_TRUE(scene.Decide().intent);
}

TEST(Starting, AVolumeThatIsNotMountedIsTriedOnAnotherNode) {
  Scene scene(MakeJob("gpt").Machines(2));
  Placed(scene, {1});
  scene.machine(1).unprepared = true;
  scene.Settle();
  scene.Pass(minutes(10));
  scene.Settle();
  EXPECT_EQ(scene.status().attempts.Of(1), 2U);
  EXPECT_THAT(scene.status().last_failure->failure.message,
              HasSubstr("its volumes or its network are not ready"));
}

}  // namespace
}  // namespace lockstep::control
