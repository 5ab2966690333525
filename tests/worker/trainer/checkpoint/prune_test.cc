#include "worker/trainer/checkpoint/prune.h"

#include "tests/worker/trainer/checkpoint/checkpoint_test_base.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

class PruneTest : public CheckpointTestBase {};

TEST_F(PruneTest, TheLastOnesStay) {
  std::vector<std::string> folders = {Write("1"), Write("2"), Write("3")};
  Prune(folders, 5);
  Prune(folders, 3);
  EXPECT_TRUE(fs::exists(Path("1")));
  Prune(folders, 2);
  EXPECT_FALSE(fs::exists(Path("1")));
  OwnedState state(kTiny);
  EXPECT_TRUE(ReadCheckpoint(Path("2"), kTiny, state.view()).ok());
  EXPECT_TRUE(ReadCheckpoint(Path("3"), kTiny, state.view()).ok());
  Prune(folders, 1);
  EXPECT_FALSE(fs::exists(Path("2")));
  EXPECT_TRUE(fs::exists(Path("3")));
}

TEST_F(PruneTest, WhatIsNoCheckpointOfOursStays) {
  WriteText(Path("models/model.safetensors"), "somebody's");
  WriteText(Path("foreign/manifest.json"), R"({"files": {"precious": {}}})");
  WriteText(Path("foreign/precious"), "somebody's");
  Prune({Path("models"), Path("foreign"), Path("nothing"), Write("last")}, 1);
  EXPECT_EQ(ReadText(Path("models/model.safetensors")), "somebody's");
  EXPECT_EQ(ReadText(Path("foreign/precious")), "somebody's");
}

TEST_F(PruneTest, WhatSomebodyPutBesideTheFilesStays) {
  WriteText(Write("1") + "/notes.txt", "mine");
  Prune({Path("1"), Write("2")}, 1);
  EXPECT_EQ(ReadText(Path("1/notes.txt")), "mine");
  EXPECT_FALSE(fs::exists(Path("1/model.safetensors")));
  EXPECT_FALSE(fs::exists(Path("1/manifest.json")));
}

TEST_F(PruneTest, WhatACrashLeftIsRemovedTheNextTime) {
  fs::remove(Write("1") + "/model.safetensors");
  Prune({Path("1"), Write("2")}, 1);
  EXPECT_FALSE(fs::exists(Path("1")));
}

}  // namespace
}  // namespace lockstep::trainer
