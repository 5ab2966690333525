#include "cli/run/kept_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::cli::kept_checkpoint_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class KeptCheckpointTest : public ::testing::Test {
 protected:
  KeptCheckpointTest() {
    std::string pattern = ::testing::TempDir() + "kept_checkpoint.XXXXXX";
    base_ = mkdtemp(pattern.data());
  }
  ~KeptCheckpointTest() override { fs::remove_all(base_); }

  void Part(const std::string& agent, const std::string& part) {
    const fs::path folder = fs::path(base_) / "run" / agent / "memory" / part;
    fs::create_directories(folder);
    std::ofstream(folder / "file") << part;
  }

  std::string base_;
};

TEST_F(KeptCheckpointTest, TheNewestOneThatIsWholeIsMovedOutOfTheRunsFolder) {
  Part("m0.1", "1-1/0/000009.step-9");
  Part("m1.2", "1-1/1/000009.step-9");
  Part("m0.1", "1-2/0/000002.step-11");
  Part("m1.2", "1-2/1/000002.step-11");
  Part("m0.1", "1-2/0/000003.step-12");
  Part("m0.1", "1-2/1/000003.step-12");  // a copy, which may not be whole
  const Result<KeptCheckpoint> kept = KeepCheckpoint(base_ + "/run", 2);
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(kept->name, "step-11");
  EXPECT_EQ(fs::path(kept->folder).parent_path(), base_);
  EXPECT_TRUE(fs::exists(kept->folder + "/machine-0/file"));
  EXPECT_TRUE(fs::exists(kept->folder + "/machine-1/file"));
  EXPECT_THAT(HowToUse(*kept, "/ckpt"), HasSubstr("--resume /ckpt/step-11"));
}

TEST_F(KeptCheckpointTest, NothingIsKeptWhereNoneIsWhole) {
  Part("m0.1", "1-1/0/000009.step-9");
  const Result<KeptCheckpoint> kept = KeepCheckpoint(base_ + "/run", 2);
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace lockstep::cli::kept_checkpoint_test
