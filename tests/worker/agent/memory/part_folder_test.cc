#include "worker/agent/memory/part_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

class PartFolder : public testing::Test {
 protected:
  PartFolder() {
    std::string pattern = testing::TempDir() + "/part-XXXXXX";
    root_ = mkdtemp(pattern.data());
    Write("part/model/shard-0", "weights");
    Write("part/empty", "");
  }
  ~PartFolder() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }

  std::string root_;
};

TEST_F(PartFolder, AManifestNamesEveryFileWithItsSizeAndHash) {
  const Result<Manifest> manifest = HashPart(root_ + "/part");
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  ASSERT_EQ(manifest->size(), 2U);
  EXPECT_EQ((*manifest)[0].path, "empty");
  EXPECT_EQ((*manifest)[1].path, "model/shard-0");
  EXPECT_EQ((*manifest)[1].sha256.size(), 64U);
  EXPECT_EQ(SizeOf(*manifest), 7U);
  const Result<Manifest> read = ParseManifest(ToText(*manifest));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, *manifest);
}

TEST_F(PartFolder, LinksAreRefused) {
  fs::create_symlink("/etc/passwd", root_ + "/part/model/link");
  const Result<Manifest> manifest = ListPart(root_ + "/part");
  ASSERT_FALSE(manifest.ok());
  EXPECT_EQ(manifest.error().message, "model/link is no file");
  fs::create_directory_symlink(root_ + "/part", root_ + "/linked");
  EXPECT_FALSE(ListPart(root_ + "/linked").ok());
}

TEST_F(PartFolder, AManifestThatLeadsOutOfItsFolderIsRefused) {
  for (const char* path : {"../x", "/etc/passwd", "a/../../x", "", "a//../b", "."}) {
    EXPECT_FALSE(ParseManifest(ToText({{path, 1, "00"}})).ok()) << path;
  }
  EXPECT_FALSE(ParseManifest("").ok());
  EXPECT_FALSE(ParseManifest(R"([["a", -1, ""]])").ok());
  EXPECT_FALSE(ParseManifest(ToText({{"a", 1, ""}, {"a", 1, ""}})).ok());
}

TEST_F(PartFolder, PartsOfTwoMachinesLieOverEachOther) {
  Write("other/model/shard-1", "more");
  Write("other/empty", "");
  ASSERT_TRUE(CopyPart(root_ + "/part", root_ + "/final", 0).ok());
  ASSERT_TRUE(CopyPart(root_ + "/other", root_ + "/final", 1).ok());
  const Result<Manifest> manifest = ListPart(root_ + "/final");
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(*manifest,
            (Manifest{{"empty", 0, ""}, {"model/shard-0", 7, ""}, {"model/shard-1", 4, ""}}));
}

TEST_F(PartFolder, AnotherMachinesFileOfOtherContentIsNeverReplaced) {
  Write("other/model/shard-0", "WEIGHTS");  // of the same size
  ASSERT_TRUE(CopyPart(root_ + "/part", root_ + "/final", 0).ok());
  const Status copied = CopyPart(root_ + "/other", root_ + "/final", 1);
  ASSERT_FALSE(copied.ok());
  EXPECT_TRUE(copied.error().message.starts_with(
      root_ + "/final/model/shard-0 is there already with other content"))
      << copied.error().message;
  EXPECT_EQ(*ReadFile(root_ + "/final/model/shard-0", 100), "weights");
  EXPECT_EQ(ListPart(root_ + "/final")->size(), 2U) << "a draft is left";
}

}  // namespace
}  // namespace lockstep::agent
