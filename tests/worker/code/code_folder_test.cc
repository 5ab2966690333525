#include "worker/code/code_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <string>

#include "base/crypto/sha256.h"
#include "base/file.h"
#include "base/text/json.h"
#include "worker/code/code_manifest.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

class CodeFolderTest : public testing::Test {
 protected:
  CodeFolderTest() : home_(fs::path(testing::TempDir()) / "code_folder") {
    fs::remove_all(home_);
    Result<CodeFolder> folder = CodeFolder::Open(home_.string());
    EXPECT_TRUE(folder.ok());
    folder_.emplace(std::move(*folder));
  }

  CodeFile Stage(const std::string& text) {
    Sha256 hash;
    hash.Add(std::as_bytes(std::span(text)));
    CodeFile file{hash.Hex(), 0644, text.size()};
    EXPECT_TRUE(WriteFileAtomically(folder_->stage() + "/" + file.sha256, text).ok());
    return file;
  }
  std::string Read(const std::string& path) {
    const Result<std::string> text = ReadFile(folder_->tree() + "/" + path, 1000);
    return text.ok() ? *text : "";
  }

  fs::path home_;
  std::optional<CodeFolder> folder_;
};

TEST_F(CodeFolderTest, ApplyMakesTheTreeTheVersionAndKeepsWhatTheProgramWrote) {
  CodeManifest first;
  first.files = {{"train.py", Stage("one")}, {"lib/old.py", Stage("old")}};
  ASSERT_TRUE(folder_->Apply(first).ok());
  ASSERT_TRUE(WriteFileAtomically(folder_->tree() + "/output.txt", "kept").ok());
  fs::create_directories(folder_->tree() + "/__pycache__");
  ASSERT_TRUE(
      WriteFileAtomically(folder_->tree() + "/__pycache__/train.cpython-311.pyc", "x").ok());
  CodeManifest second;
  second.files = {{"train.py", Stage("two")}};
  ASSERT_TRUE(folder_->Apply(second).ok());
  EXPECT_EQ(Read("train.py"), "two");
  EXPECT_EQ(Read("output.txt"), "kept");
  EXPECT_FALSE(fs::exists(folder_->tree() + "/lib"));
  EXPECT_FALSE(fs::exists(folder_->tree() + "/__pycache__/train.cpython-311.pyc"));
}

TEST_F(CodeFolderTest, WhatTheProgramWroteInTheWayOfCodeIsRenamed) {
  const std::string tree = folder_->tree();
  ASSERT_TRUE(WriteFileAtomically(tree + "/log", "a line").ok());
  fs::create_directories(tree + "/prep");
  ASSERT_TRUE(WriteFileAtomically(tree + "/prep/cache.bin", "bytes").ok());
  ASSERT_TRUE(WriteFileAtomically(tree + "/prep.replaced", "older").ok());
  CodeManifest manifest;
  manifest.files = {{"log/__init__.py", Stage("one")}, {"prep", Stage("two")}};
  const Status applied = folder_->Apply(manifest);
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_EQ(Read("log/__init__.py"), "one");
  EXPECT_EQ(Read("prep"), "two");
  EXPECT_EQ(Read("log.replaced"), "a line");
  EXPECT_EQ(Read("prep.replaced"), "older");
  EXPECT_EQ(Read("prep.replaced2/cache.bin"), "bytes");
}

TEST_F(CodeFolderTest, WhatTheProgramPutInThePlaceOfCodeStaysWhenTheCodeGoes) {
  CodeManifest first;
  first.files = {{"log/__init__.py", Stage("one")}, {"prep", Stage("two")}};
  ASSERT_TRUE(folder_->Apply(first).ok());
  const std::string tree = folder_->tree();
  fs::remove_all(tree + "/log");
  fs::remove(tree + "/prep");
  fs::create_directories(tree + "/prep");
  ASSERT_TRUE(WriteFileAtomically(tree + "/prep/cache.bin", "bytes").ok());
  ASSERT_TRUE(WriteFileAtomically(tree + "/log", "a line").ok());
  const Status applied = folder_->Apply({});
  ASSERT_TRUE(applied.ok()) << applied.error().message;
  EXPECT_EQ(Read("log"), "a line");
  EXPECT_EQ(Read("prep/cache.bin"), "bytes");
}

TEST_F(CodeFolderTest, AContentThatIsMissingIsAnErrorAndTheNextApplyMendsTheTree) {
  CodeManifest broken;
  broken.files = {{"train.py", {std::string(64, 'a'), 0644, 3}}};
  EXPECT_FALSE(folder_->Apply(broken).ok());
  CodeManifest whole;
  whole.files = {{"train.py", Stage("one")}};
  ASSERT_TRUE(folder_->Apply(whole).ok());
  EXPECT_EQ(Read("train.py"), "one");
}

TEST_F(CodeFolderTest, DropContentsKeepsOnlyWhatIsNamed) {
  const CodeFile kept = Stage("one");
  const CodeFile dropped = Stage("two");
  DropContents(folder_->stage(), {kept.sha256});
  EXPECT_TRUE(fs::exists(folder_->stage() + "/" + kept.sha256));
  EXPECT_FALSE(fs::exists(folder_->stage() + "/" + dropped.sha256));
}

TEST(CodeManifest, TextAndBackIsTheSameVersion) {
  CodeManifest manifest;
  manifest.files = {{"a b/train.py", {std::string(64, '0'), 0755, 7}},
                    {"z", {std::string(64, 'f'), 0600, 0}}};
  const Result<CodeManifest> read = ParseCodeManifest(ToText(manifest));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->files, manifest.files);
  EXPECT_EQ(read->Digest(), manifest.Digest());
}

TEST(CodeManifest, APathThatLeadsOutOfTheFolderIsRefused) {
  const std::string hash(64, '0');
  for (const std::string path : {"/etc/passwd", "../x", "a/../../x", "", "a//b", "a/.", "."}) {
    const std::string text = Json::array({Json::array({path, hash, 420, 1})}).dump();
    EXPECT_FALSE(ParseCodeManifest(text).ok()) << path;
  }
  EXPECT_TRUE(ParseCodeManifest("[[\"a/b\",\"" + hash + "\",420,1]]").ok());
}

TEST(CodeManifest, WrongHashesModesAndSizesAreRefused) {
  const std::string hash(64, '0');
  EXPECT_FALSE(ParseCodeManifest("[[\"a\",\"../../x\",420,1]]").ok());
  EXPECT_FALSE(ParseCodeManifest("[[\"a\",\"" + hash + "\",2048,1]]").ok());
  EXPECT_FALSE(ParseCodeManifest("[[\"a\",\"" + hash + "\",420,-1]]").ok());
  const Result<CodeManifest> large =
      ParseCodeManifest("[[\"a\",\"" + hash + "\",420," + std::to_string(kMaxCodeFile + 1) + "]]");
  ASSERT_FALSE(large.ok());
  EXPECT_EQ(large.error().kind, ErrorKind::kTooLarge);
  EXPECT_FALSE(ParseCodeManifest("{}").ok());
}

TEST(PythonPathInTree, TheTreeIsFirstAndEntriesOfTheFolderMoveThere) {
  EXPECT_EQ(PythonPathInTree("/app/lib::/opt/x", "/app", "/run/tree"),
            "/run/tree:/run/tree/lib:/opt/x");
  EXPECT_EQ(PythonPathInTree("", "/app", "/run/tree"), "/run/tree");
  EXPECT_EQ(PythonPathInTree("/opt/x", "", "/run/tree"), "/run/tree:/opt/x");
}

TEST(OriginalFolder, HasNoSlashAtItsEnd) {
  EXPECT_EQ(OriginalFolder("/app"), "/app");
  EXPECT_EQ(OriginalFolder("/app/"), "/app");
  EXPECT_EQ(OriginalFolder("/app//x/.."), "/app");
  EXPECT_EQ(OriginalFolder("/"), "");
}

TEST(WordOfOriginal, NamesTheAbsolutePathOfASyncedFileAlone) {
  CodeManifest manifest;
  manifest.files = {{"train.py", {}}};
  EXPECT_EQ(WordOfOriginal({"python", "/app/train.py"}, "/app", manifest), "/app/train.py");
  EXPECT_EQ(WordOfOriginal({"/app//train.py"}, "/app", manifest), "/app//train.py");
  EXPECT_EQ(WordOfOriginal({"/train.py"}, "", manifest), "/train.py");
  EXPECT_EQ(WordOfOriginal({"python", "train.py", "/app/data.py", "/app"}, "/app", manifest),
            std::nullopt);
}

}  // namespace
}  // namespace lockstep
