#include "base/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

namespace lockstep::folder_test {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class FolderTest : public ::testing::Test {
 protected:
  FolderTest() : folder_(::testing::TempDir() + "folder_test." + std::to_string(getpid())) {
    fs::create_directories(folder_ + "/a/b");
    std::ofstream(folder_ + "/a/b/file") << "text";
    std::ofstream(folder_ + "/file") << "text";
  }
  ~FolderTest() override { fs::remove_all(folder_); }

  std::vector<std::string> seen_;
  const std::string folder_;
};

TEST_F(FolderTest, EveryEntryIsSeen) {
  std::error_code error;
  const auto visit = [this](const fs::directory_entry& entry) {
    seen_.push_back(entry.path().filename());
  };
  ForEachEntry(folder_, visit, &error);
  EXPECT_FALSE(error);
  EXPECT_THAT(seen_, UnorderedElementsAre("a", "file"));
}

TEST_F(FolderTest, AFolderThatIsNotThereIsAnError) {
  std::error_code error;
  const auto visit = [this](const fs::directory_entry&) { seen_.emplace_back(); };
  ForEachEntry(folder_ + "/none", visit, &error);
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  EXPECT_THAT(seen_, IsEmpty());
}

// What the iterators throw for in a range-for.
TEST_F(FolderTest, AFolderBelowThatVanishesMeanwhileEndsTheWalkWithAnError) {
  fs::remove(folder_ + "/file");
  std::error_code error;
  const auto visit = [this](const fs::directory_entry& entry) {
    seen_.push_back(entry.path().filename());
    fs::remove_all(entry.path());
    return true;
  };
  ForEachEntryBelow(folder_, visit, &error);
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  EXPECT_THAT(seen_, UnorderedElementsAre("a"));
}

TEST_F(FolderTest, AWalkEndsWhereTheVisitorSaysSo) {
  std::error_code error;
  const auto visit = [this](const fs::directory_entry& entry) {
    seen_.push_back(entry.path().filename());
    return false;
  };
  ForEachEntryBelow(folder_ + "/a", visit, &error);
  EXPECT_FALSE(error);
  EXPECT_THAT(seen_, UnorderedElementsAre("b"));
}

}  // namespace
}  // namespace lockstep::folder_test
