#include "worker/agent/files/part_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/file.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t kNobody = 65534;

class PartFolder : public testing::Test {
 protected:
  PartFolder() {
    std::string pattern = testing::TempDir() + "/part-XXXXXX";
    root_ = mkdtemp(pattern.data());
    Write("part/model/shard-0", "weights");
    Write("part/empty", "");
  }
  ~PartFolder() override { RemoveTree(root_); }

  std::string Path(const std::string& path) const { return root_ + "/" + path; }
  void Write(const std::string& path, const std::string& text, mode_t mode = 0644) const {
    fs::create_directories(fs::path(Path(path)).parent_path());
    std::ofstream(Path(path)) << text;
    chmod(Path(path).c_str(), mode);
  }
  // Parts of machines 0, 1, ... as they go to the volume.
  Status Persist(const std::vector<std::string>& parts) const {
    for (uint32_t machine = 0; machine < parts.size(); ++machine) {
      Status written = WritePart(Path(parts[machine]), Path("work"), machine);
      if (!written.ok()) return written;
    }
    return FinishParts(Path("work"), static_cast<uint32_t>(parts.size()));
  }
  std::string Persisted(const std::string& path) const {
    return *ReadFile(TreeOf(Path("work")) + "/" + path, 1000);
  }
  std::vector<std::string> PathsIn(const std::string& folder) const {
    std::vector<std::string> paths;
    const Result<Manifest> manifest = ListPart(folder);
    EXPECT_TRUE(manifest.ok()) << manifest.error().message;
    for (const PartEntry& entry : *manifest) paths.push_back(entry.path);
    return paths;
  }

  std::string root_;
};

TEST_F(PartFolder, AManifestNamesEveryFileWithItsSizeAndHash) {
  const Result<Manifest> manifest = HashPart(Path("part"));
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  ASSERT_EQ(manifest->size(), 4U);
  EXPECT_EQ((*manifest)[0].path, "");
  EXPECT_EQ((*manifest)[1].path, "empty");
  EXPECT_EQ((*manifest)[2].path, "model");
  EXPECT_EQ((*manifest)[3].path, "model/shard-0");
  EXPECT_EQ((*manifest)[3].sha256.size(), 64U);
  EXPECT_EQ(SizeOf(*manifest), 7U);
  const Result<Manifest> read = ParseManifest(ToText(*manifest));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, *manifest);
}

TEST_F(PartFolder, NamesThatAreNoUtf8SurviveTheManifest) {
  const std::string bytes = "part/caf\xe9 %41\n\"\\";
  Write(bytes, "one");
  Write("part/caf\xe8 %41\n\"\\", "two");
  fs::create_symlink("caf\xe9", Path("part/li\xffnk"));
  const Result<Manifest> manifest = HashPart(Path("part"));
  ASSERT_TRUE(manifest.ok()) << manifest.error().message;
  const Result<Manifest> read = ParseManifest(ToText(*manifest));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, *manifest);
}

TEST_F(PartFolder, PipesSocketsAndDevicesAreRefusedByName) {
  ASSERT_EQ(mkfifo(Path("part/model/pipe").c_str(), 0600), 0);
  const Result<Manifest> manifest = ListPart(Path("part"));
  ASSERT_FALSE(manifest.ok());
  EXPECT_EQ(manifest.error().message,
            "model/pipe is a named pipe: a checkpoint in memory has files, folders and symbolic "
            "links; remove model/pipe before the commit");
  fs::create_directory_symlink(Path("part"), Path("linked"));
  EXPECT_FALSE(ListPart(Path("linked")).ok()) << "the folder itself is none";
}

TEST_F(PartFolder, APipeThatComesInAFilesPlaceIsNotWaitedFor) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(OpenPartFile(Path("pipe")).ok());
}

TEST_F(PartFolder, TooManyEntriesAndTooLongPathsAreRefused) {
  fs::path deep = Path("deep");
  for (int i = 0; i < 9; ++i) deep /= std::string(250, 'd');
  fs::create_directories(deep);
  EXPECT_THAT(ListPart(Path("deep")).error().message, HasSubstr("more than 2048 bytes"));
  for (size_t i = 0; i < kMaxPartEntries; ++i)
    fs::create_symlink("x", Path("part/" + std::to_string(i)));
  EXPECT_THAT(ListPart(Path("part")).error().message, HasSubstr("more than 8192 files"));
}

TEST_F(PartFolder, AManifestThatLeadsOutOfItsFolderIsRefused) {
  const PartEntry top{.path = "", .kind = PartKind::kFolder, .mode = 0755};
  const auto parses = [&](const Manifest& manifest) {
    return ParseManifest(ToText(manifest)).ok();
  };
  EXPECT_TRUE(parses({top, {.path = "a"}}));
  for (const char* path : {"../x", "/etc/passwd", "a/../../x", "", "a//../b", ".", "no-folder/x"}) {
    EXPECT_FALSE(parses({top, {.path = path}})) << path;
  }
  const PartEntry link{.path = "a", .kind = PartKind::kLink, .target = "/etc"};
  EXPECT_TRUE(parses({top, link}));
  EXPECT_FALSE(parses({top, link, {.path = "a/passwd"}})) << "through a link";
  EXPECT_FALSE(parses({{.path = "a"}})) << "without the folder itself";
  EXPECT_FALSE(parses({top, {.path = "a"}, {.path = "a"}}));
  EXPECT_FALSE(parses({top, {.path = "a", .mode = 0100000}}));
  EXPECT_FALSE(ParseManifest("").ok());
  EXPECT_FALSE(ParseManifest(R"([["d", "", 493], ["f", "a", 1, -1, ""]])").ok());
  EXPECT_FALSE(ParseManifest(R"([["d", "", 493], ["f", "%4", 1, 1, ""]])").ok());
}

TEST_F(PartFolder, PartsOfTwoMachinesLieOverEachOther) {
  Write("other/model/shard-1", "more");
  Write("other/empty", "");
  ASSERT_TRUE(Persist({"part", "other"}).ok());
  EXPECT_EQ(PathsIn(TreeOf(Path("work"))),
            (std::vector<std::string>{"", "empty", "model", "model/shard-0", "model/shard-1"}));
}

// Names that an implementation may take for its own: today's and yesterday's.
TEST_F(PartFolder, NoNameOfAFileIsOurs) {
  const std::vector<std::string> names = {
      ".machine-0", ".machine-1",  "draft-1", "empty.lock",          "empty.new.1",
      ".lockstep",  ".memory-1-1", "tree",    "empty.part-1",        "model/shard-0.part-0",
      "part-0",     ".removed-x",  "work",    std::string(255, 'n'), "model.part-0"};
  for (const std::string& name : names) Write("other/" + name, "of " + name);
  ASSERT_TRUE(Persist({"part", "other"}).ok());
  EXPECT_EQ(Persisted("model/shard-0"), "weights");
  for (const std::string& name : names) EXPECT_EQ(Persisted(name), "of " + name);
  EXPECT_EQ(PathsIn(TreeOf(Path("work"))).size(), names.size() + 4);
}

TEST_F(PartFolder, WhatGoesToTheVolumeIsTheSameTree) {
  Write("part/private", "key", 0600);
  Write("part/caf\xe9", "bytes", 0640);
  Write("part/run.sh", "x", 0755);
  fs::create_directories(Path("part/hollow/deep"));
  chmod(Path("part/hollow").c_str(), 0550);
  fs::create_symlink("model/shard-0", Path("part/latest"));
  fs::create_symlink("/nowhere", Path("part/dangling"));
  const Result<Manifest> before = HashPart(Path("part"));
  ASSERT_TRUE(before.ok()) << before.error().message;
  const Status persisted = Persist({"part"});
  ASSERT_TRUE(persisted.ok()) << persisted.error().message;
  EXPECT_EQ(*HashPart(TreeOf(Path("work"))), *before);
}

TEST_F(PartFolder, FilesOfOneNameAndOtherContentAreRefusedWhoeverIsFirst) {
  Write("other/model/shard-0", "WEIGHTS");  // of the same size
  const std::vector<std::vector<std::string>> orders = {{"part", "other"}, {"other", "part"}};
  for (const std::vector<std::string>& parts : orders) {
    const Status persisted = Persist(parts);
    ASSERT_FALSE(persisted.ok());
    EXPECT_EQ(persisted.error().message,
              "model/shard-0 is not the same on two machines: give each machine's files their own "
              "names, such as with its rank in them");
  }
}

TEST_F(PartFolder, AFileOnOneMachineAndAFolderOrLinkOnAnotherAreRefused) {
  Write("folder/empty/x", "");
  EXPECT_THAT(Persist({"part", "folder"}).error().message, HasSubstr("empty is not the same"));
  RemoveTree(Path("work"));
  EXPECT_THAT(Persist({"folder", "part"}).error().message, HasSubstr("empty is not the same"));
  RemoveTree(Path("work"));
  fs::create_directories(Path("link"));
  fs::create_symlink("/etc", Path("link/model"));
  EXPECT_THAT(Persist({"link", "part"}).error().message, HasSubstr("model is not the same"));
}

TEST_F(PartFolder, ATreeWithoutTheMarkOfEveryMachineIsNotFinished) {
  ASSERT_TRUE(WritePart(Path("part"), Path("work"), 1).ok());
  EXPECT_THAT(FinishParts(Path("work"), 2).error().message, HasSubstr("machine 0's part is gone"));
}

TEST_F(PartFolder, ATreeOfFoldersThatMayNotBeWrittenIsRemoved) {
  fs::create_directories(Path("part/hollow/deep"));
  chmod(Path("part/hollow").c_str(), 0500);
  // Root may write everywhere. Another user may not pass through the folder for temporary files, so
  // its paths start in the test's own.
  const pid_t child = fork();
  if (child == 0) {
    if (chdir(root_.c_str()) != 0) _exit(3);
    if (geteuid() == 0) {
      bool owned = chown(root_.c_str(), kNobody, kNobody) == 0;
      for (const fs::path& path : fs::recursive_directory_iterator(root_)) {
        owned = owned && chown(path.c_str(), kNobody, kNobody) == 0;
      }
      if (!owned || setuid(kNobody) != 0) _exit(2);
    }
    RemoveTree("part");
    std::error_code error;
    _exit(fs::exists("part", error) || error ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace lockstep::agent
