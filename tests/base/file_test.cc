#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FilesTest : public ::testing::Test {
 protected:
  FilesTest() : folder_(::testing::TempDir() + "file_test." + std::to_string(getpid())) {
    fs::create_directory(folder_);
  }
  ~FilesTest() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(FilesTest, WhatWasWrittenIsRead) {
  const std::string text(100000, 'x');
  ASSERT_TRUE(WriteFileAtomically(Path("a"), text).ok());
  const Result<std::string> read = ReadFile(Path("a"), text.size());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, text);
}

TEST_F(FilesTest, AFileIsOverwrittenInPlaceAndOnlyOneThatIsThere) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "a longer text").ok());
  ASSERT_TRUE(OverwriteFile(Path("a"), "short").ok());
  EXPECT_EQ(*ReadFile(Path("a"), 100), "short");
  EXPECT_FALSE(OverwriteFile(Path("b"), "short").ok());
  EXPECT_FALSE(fs::exists(Path("b")));
}

TEST_F(FilesTest, AFileOfTheKernelIsReadThoughItSaysItIsEmpty) {
  const Result<std::string> read = ReadFile("/proc/self/status", 1 << 20);
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(*read, HasSubstr("Name:"));
}

TEST_F(FilesTest, AFileOverTheLimitIsRefused) {
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "12345").ok());
  EXPECT_TRUE(ReadFile(Path("a"), 5).ok());
  const Result<std::string> read = ReadFile(Path("a"), 4);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::kTooLarge);
  EXPECT_EQ(read.error().message, Path("a") + " is larger than 4 bytes");
}

TEST_F(FilesTest, APipeWithoutAWriterIsRefusedAtOnce) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const Result<std::string> read = ReadFile(Path("pipe"), 10);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(read.error().message, HasSubstr(Path("pipe") + " is a pipe"));
}

TEST_F(FilesTest, WhatIsMissingAFolderOrADeviceIsSaidToBeThat) {
  EXPECT_EQ(ReadFile(Path("none"), 10).error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(ReadFile(folder_, 10).error().message, HasSubstr("is a folder"));
  EXPECT_THAT(ReadFile("/dev/zero", 10).error().message, HasSubstr("a device"));
}

TEST_F(FilesTest, AnOpenPipeIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  ASSERT_TRUE(WriteAll(writes.get(), "from a pipe", "the pipe").ok());
  writes.reset();
  EXPECT_EQ(*ReadToEnd(reads.get(), "the pipe", 100), "from a pipe");
}

TEST_F(FilesTest, AWriteThatFailsLeavesTheOldTextAndNothingElse) {
  fs::create_directory(Path("a"));
  ASSERT_TRUE(WriteFileAtomically(Path("a/old"), "old").ok());
  EXPECT_FALSE(WriteFileAtomically(Path("a"), "new").ok());  // a folder stands there
  EXPECT_EQ(*ReadFile(Path("a/old"), 10), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(FilesTest, AWriteTouchesNoFileBesideItAndItsNameMayBeAsLongAsNamesCanBe) {
  const std::string neighbour = Path("a.new." + std::to_string(getpid()));
  ASSERT_TRUE(WriteFileAtomically(neighbour, "theirs").ok());
  ASSERT_TRUE(WriteFileAtomically(Path("a"), "text").ok());
  EXPECT_EQ(*ReadFile(neighbour, 10), "theirs");
  EXPECT_TRUE(WriteFileAtomically(Path(std::string(255, 'n')), "text").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 3);
}

TEST_F(FilesTest, ACopyIsWholeOrNotThere) {
  const std::string text(100'000, 'x');
  ASSERT_TRUE(WriteFileAtomically(Path("a"), text).ok());
  ASSERT_TRUE(CopyFileAtomically(Path("a"), Path("b"), {.mode = 0555}).ok());
  EXPECT_EQ(*ReadFile(Path("b"), text.size()), text);
  EXPECT_EQ(static_cast<int>(fs::status(Path("b")).permissions()), 0555);
  EXPECT_EQ(CopyFileAtomically(Path("none"), Path("b")).error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(CopyFileAtomically(folder_, Path("b")).ok());
  EXPECT_EQ(*ReadFile(Path("b"), text.size()), text);
  EXPECT_FALSE(CopyFileAtomically("/proc/self/mem", Path("c")).ok());  // opens, and can't be read
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2);
}

TEST_F(FilesTest, AModeThatIsAskedForHoldsWhateverTheUmask) {
  const mode_t before = umask(077);
  ASSERT_TRUE(WriteFileAtomically(Path("tool"), "x", {.mode = 0555}).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("tool"), "y", {.mode = 0555}).ok());
  ASSERT_TRUE(WriteFileAtomically(Path("mine"), "x", {.durable = true}).ok());
  umask(before);
  EXPECT_EQ(*ReadFile(Path("tool"), 10), "y");
  EXPECT_EQ(static_cast<int>(fs::status(Path("tool")).permissions()), 0555);
  EXPECT_EQ(static_cast<int>(fs::status(Path("mine")).permissions()), 0600);
}

}  // namespace
}  // namespace lockstep
