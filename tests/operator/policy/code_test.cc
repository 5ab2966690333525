#include "tests/operator/policy/scene.h"

namespace lockstep::control {
namespace {

using core::CoordinatorPhase;

core::SyncedCode Code(const std::string& digest, const std::string& by) {
  core::SyncedCode code;
  code.digest = digest;
  code.files = 2;
  code.by = by;
  code.since = seconds(3);
  code.generation = {1, 2};
  return code;
}

void Sync(Scene& scene, const std::string& digest, const std::string& by) {
  scene.spec().sync.emplace();
  scene.Report(CoordinatorPhase::kRunning).code = Code(digest, by);
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
}

TEST(Code, IsRecordedAndALaterMachine0HearsOfIt) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Sync(scene, "5eed", "alice");
  ASSERT_TRUE(scene.status().code);
  EXPECT_EQ(scene.status().code->digest, "5eed");
  EXPECT_EQ(scene.status().code->files, 2);
  EXPECT_EQ(scene.status().code->by, "alice");
  EXPECT_EQ(scene.status().code->generation, (core::Generation{1, 2}));
  const Decision decision = scene.Decide();
  ASSERT_TRUE(decision.desired && decision.desired->code);
  EXPECT_EQ(decision.desired->code->digest, "5eed");
  EXPECT_EQ(decision.desired->code->generation, (core::Generation{1, 2}));
}

TEST(Code, AMachine0ThatKnowsNoUserLeavesTheRecordAsItIs) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  Sync(scene, "5eed", "alice");
  Sync(scene, "5eed", "");
  EXPECT_EQ(scene.status().code->by, "alice");
  Sync(scene, "f00d", "bob");
  EXPECT_EQ(scene.status().code->by, "bob");
}

TEST(Code, ANewMachine0ThatNamesOlderCodeChangesNoRecord) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.spec().sync.emplace();
  core::SyncedCode code = Code("f00d", "bob");
  code.generation = {1, 6};
  scene.Report(CoordinatorPhase::kRunning).code = code;
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  Sync(scene, "5eed", "");  // as of generation 1-2
  EXPECT_EQ(scene.status().code->digest, "f00d");
  code = Code("5eed", "");
  code.generation = {};
  scene.Report(CoordinatorPhase::kRunning).code = code;
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  EXPECT_EQ(scene.status().code->digest, "f00d");
}

TEST(Code, OfAJobWithoutSyncNothingIsSaidOrRecorded) {
  Scene scene(MakeJob("gpt").Machines(2));
  scene.Run();
  scene.Report(CoordinatorPhase::kRunning);
  for (int i = 0; i < 3; ++i) scene.Make(scene.Settle());
  EXPECT_FALSE(scene.status().code);
  EXPECT_FALSE(scene.Decide().desired->code);
}

}  // namespace
}  // namespace lockstep::control
