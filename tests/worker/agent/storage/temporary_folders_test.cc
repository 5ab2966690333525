#include "worker/agent/storage/temporary_folders.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/base/loop_test_base.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

class TemporaryFoldersTest : public LoopTest {
 protected:
  TemporaryFoldersTest() {
    std::string path = "/tmp/folders-XXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~TemporaryFoldersTest() override { fs::remove_all(root_); }

  TemporaryFolders Folders(const fs::path& base) {
    return {loop(), base, [this](const std::string& line) { said_.push_back(line); }};
  }

  fs::path root_;
  std::vector<std::string> said_;
};

TEST_F(TemporaryFoldersTest, AreEmptyForEachGenerationAndTheUsersAlone) {
  TemporaryFolders folders = Folders(root_ / "tmp");
  folders.Begin({1, 1}, {});
  const std::string first = folders.Of(0);
  EXPECT_EQ(first, root_ / "tmp/1-1");
  struct stat status{};
  ASSERT_EQ(stat(first.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, S_IRWXU);
  fs::create_directories(first + "/prte.1000");
  std::ofstream(first + "/prte.1000/pid.45") << "45";
  folders.End();
  folders.Begin({1, 2}, {});
  const std::string second = folders.Of(0);
  EXPECT_NE(second, first);
  EXPECT_TRUE(fs::is_empty(second));
  EXPECT_TRUE(RunUntil([&] { return !fs::exists(first); }));
}

TEST_F(TemporaryFoldersTest, OfARankThatLivesOnStaysWithItsFilesUntilTheRankHasEnded) {
  TemporaryFolders folders = Folders(root_ / "tmp");
  folders.Begin({1, 1}, {});
  std::ofstream(folders.Of(2) + "/socket") << "of a data loader";
  folders.Begin({1, 2}, {2});
  folders.Begin({1, 3}, {2, 3});
  EXPECT_EQ(folders.Of(2), root_ / "tmp/1-1");
  EXPECT_EQ(folders.Of(3), root_ / "tmp/1-2");
  EXPECT_EQ(folders.Of(4), root_ / "tmp/1-3");
  folders.Begin({1, 4}, {2});
  EXPECT_TRUE(
      RunUntil([&] { return !fs::exists(root_ / "tmp/1-2") && !fs::exists(root_ / "tmp/1-3"); }));
  EXPECT_TRUE(fs::exists(folders.Of(2) + "/socket"));
  EXPECT_TRUE(fs::is_empty(folders.Of(3)));
  folders.End();
  EXPECT_TRUE(RunUntil([&] { return fs::is_empty(root_ / "tmp"); }));
}

TEST_F(TemporaryFoldersTest, OfAnEarlierAgentAreRemovedAndWhatTheyLinkToStays) {
  fs::create_directories(root_ / "tmp/1-7");
  fs::create_directories(root_ / "mine");
  fs::create_directory_symlink(root_ / "mine", root_ / "tmp/1-7/link");
  TemporaryFolders folders = Folders(root_ / "tmp");
  folders.Begin({2, 1}, {});
  EXPECT_TRUE(RunUntil([&] { return !fs::exists(root_ / "tmp/1-7"); }));
  EXPECT_TRUE(fs::exists(root_ / "mine"));
}

TEST_F(TemporaryFoldersTest, AreWhereALinkLeadsForThatPathIsShorter) {
  const fs::path far = root_ / std::string(60, 'x');
  fs::create_directories(far);
  fs::create_directory(root_ / "tmp");
  fs::create_directory_symlink(root_ / "tmp", far / "tmp");
  TemporaryFolders folders = Folders(far / "tmp");
  folders.Begin({1, 1}, {});
  EXPECT_EQ(folders.Of(0), root_ / "tmp/1-1");
}

TEST_F(TemporaryFoldersTest, AreLeftOutWhereNoSocketWouldHaveRoom) {
  TemporaryFolders folders = Folders(root_ / std::string(60, 'x'));
  folders.Begin({1, 1}, {});
  EXPECT_EQ(folders.Of(0), "");
  folders.Begin({1, 2}, {0});
  EXPECT_EQ(folders.Of(0), "");
  EXPECT_THAT(said_, testing::ElementsAre(testing::HasSubstr("too long for sockets")));
}

}  // namespace
}  // namespace lockstep::agent
