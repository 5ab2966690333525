// A folder that is edited, and the tree in which ranks run.
#include "cli/sync/code_sync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CodeSyncTest : public testing::Test {
 protected:
  CodeSyncTest() {
    std::string folder = testing::TempDir() + "code-XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = fs::canonical(folder).string();
    Write("train.py", "import model\n");
    Write("src/model.py", "VERSION = 1\n");
  }
  ~CodeSyncTest() override { fs::remove_all(folder_); }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((fs::path(folder_) / path).parent_path());
    std::ofstream(fs::path(folder_) / path) << text;
  }
  std::string InTree(const std::string& path) {
    std::ifstream file(sync_->tree() + "/" + path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Open(std::vector<std::string> without = {}) {
    sync_.reset();
    Result<std::unique_ptr<CodeSync>> sync = CodeSync::Open(folder_, "gpt", std::move(without));
    ASSERT_TRUE(sync.ok()) << sync.error().message;
    sync_ = std::move(*sync);
  }
  // Whether there was something to sync.
  bool Sync() {
    const Result<bool> news = sync_->Scan();
    EXPECT_TRUE(news.ok()) << news.error().message;
    EXPECT_TRUE(sync_->Apply().ok());
    return *news;
  }
  void Git(const std::string& words) {
    ASSERT_EQ(std::system(("git -C " + folder_ + " " + words).c_str()), 0);
  }

  std::string folder_;
  std::unique_ptr<CodeSync> sync_;
};

TEST_F(CodeSyncTest, ChangedNewAndGoneFilesReachTheTreeWhenTheyAreApplied) {
  Open();
  EXPECT_EQ(InTree("src/model.py"), "VERSION = 1\n");
  Write("src/model.py", "VERSION = 2\n");
  Write("extra/more.py", "x = 1\n");
  fs::remove(folder_ + "/train.py");
  const Result<bool> news = sync_->Scan();
  ASSERT_TRUE(news.ok() && *news);
  EXPECT_EQ(InTree("src/model.py"), "VERSION = 1\n") << "before it is applied";
  EXPECT_EQ(sync_->News(), "extra/more.py and 2 more files");
  Write("src/model.py", "VERSION = 3\n");
  ASSERT_TRUE(sync_->Apply().ok());
  EXPECT_EQ(InTree("src/model.py"), "VERSION = 2\n") << "as it was scanned";
  EXPECT_EQ(InTree("extra/more.py"), "x = 1\n");
  EXPECT_FALSE(fs::exists(sync_->tree() + "/train.py"));
  EXPECT_TRUE(Sync());
  EXPECT_FALSE(Sync()) << "nothing has changed";
}

TEST_F(CodeSyncTest, CompiledFilesOfChangedModulesGo) {
  Open();
  const fs::path compiled = sync_->tree() + "/src/__pycache__/model.cpython-311.pyc";
  fs::create_directories(compiled.parent_path());
  std::ofstream(compiled) << "old";
  const fs::path other = compiled.parent_path() / "other.cpython-311.pyc";
  std::ofstream(other) << "old";
  Write("src/model.py", "VERSION = 2\n");
  Sync();
  EXPECT_FALSE(fs::exists(compiled));
  EXPECT_TRUE(fs::exists(other));
}

TEST_F(CodeSyncTest, WhatIsNoCodeIsALinkAndIsNeverWrittenThrough) {
  Write(".lockstepignore", "data/\nnotes.txt\n");
  Write("data/train.bin", "bytes");
  Write("notes.txt", "mine");
  Open();
  EXPECT_TRUE(fs::is_symlink(sync_->tree() + "/data"));
  EXPECT_EQ(InTree("data/train.bin"), "bytes");
  Write(".lockstepignore", "");  // now it is code
  Sync();
  EXPECT_FALSE(fs::is_symlink(sync_->tree() + "/data"));
  EXPECT_EQ(InTree("data/train.bin"), "bytes");
  Write(".lockstepignore", "data/\n");
  Sync();
  EXPECT_TRUE(fs::exists(folder_ + "/data/train.bin"));
  EXPECT_EQ(InTree("data/train.bin"), "bytes");
}

TEST_F(CodeSyncTest, WhatRanksWriteStaysAndWhatAnEarlierRunSyncedGoes) {
  Open();
  std::ofstream(sync_->tree() + "/metrics.csv") << "1,2\n";
  fs::remove(folder_ + "/train.py");
  Write("go.py", "");
  Open();
  EXPECT_EQ(InTree("metrics.csv"), "1,2\n");
  EXPECT_FALSE(fs::exists(sync_->tree() + "/train.py"));
}

TEST_F(CodeSyncTest, GitSaysWhatIsCodeAndSecretsNeedToBeTracked) {
  Git("init -q .");
  Write(".gitignore", "*.bin\n");
  Write("weights.bin", "1");
  Write(".env", "TOKEN=1");
  Write("test.pem", "public");
  Git("add -f test.pem");
  Open();
  EXPECT_TRUE(sync_->applied().files.contains("test.pem"));
  EXPECT_FALSE(sync_->applied().files.contains(".env"));
  EXPECT_FALSE(sync_->applied().files.contains("weights.bin"));
  EXPECT_TRUE(sync_->applied().files.contains("src/model.py")) << "not tracked, not ignored";
  EXPECT_FALSE(sync_->applied().files.contains(".lockstep/.gitignore"));
  EXPECT_THAT(sync_->left_out(), ElementsAre(HasSubstr(".env: looks like a secret")));
}

TEST_F(CodeSyncTest, WhatTheRunWritesIsNoCode) {
  Write("ckpt/state.json", "1");
  Open({folder_ + "/ckpt"});
  EXPECT_FALSE(sync_->applied().files.contains("ckpt/state.json"));
  Write("ckpt/state.json", "2");
  EXPECT_FALSE(Sync());
}

TEST_F(CodeSyncTest, ALinkThatLeadsOutIsLeftOut) {
  fs::create_symlink("/etc/hostname", folder_ + "/host");
  fs::create_symlink("train.py", folder_ + "/same.py");
  Open();
  EXPECT_FALSE(sync_->applied().files.contains("host"));
  EXPECT_EQ(InTree("same.py"), "import model\n");
  EXPECT_THAT(sync_->left_out(), ElementsAre(HasSubstr("host: the link leads out")));
}

TEST_F(CodeSyncTest, AFileThatIsTooLargeIsNamedBeforeAnythingChanges) {
  Open();
  std::ofstream(folder_ + "/big.txt") << "x";
  fs::resize_file(folder_ + "/big.txt", kMaxCodeFile + 1);
  const Result<bool> news = sync_->Scan();
  ASSERT_FALSE(news.ok());
  EXPECT_THAT(news.error().message, HasSubstr("big.txt has 16 MiB, over 16 MiB"));
}

TEST_F(CodeSyncTest, TwoRunsOfOneNameDoNotShareATree) {
  Open();
  const auto second = CodeSync::Open(folder_, "gpt", {});
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message, HasSubstr("another run named gpt"));
}

TEST_F(CodeSyncTest, RanksRunInTheTree) {
  Open();
  core::Spec spec;
  spec.command = {"python3", "src/model.py", "/data/set"};
  ASSERT_TRUE(RunInTree(&spec, *sync_, folder_ + "/src", folder_ + "/lib:/opt/x").ok());
  EXPECT_EQ(spec.working_dir, sync_->tree() + "/src");
  ASSERT_EQ(spec.env.size(), 1U);
  EXPECT_EQ(spec.env[0].value, sync_->tree() + ":" + sync_->tree() + "/lib:/opt/x");
  spec.command = {"python3", folder_ + "/train.py"};
  EXPECT_FALSE(RunInTree(&spec, *sync_, folder_, "").ok());
  spec.command = {folder_ + "/.venv/bin/python3", "train.py"};
  EXPECT_TRUE(RunInTree(&spec, *sync_, folder_, "").ok()) << "an environment is not code";
}

TEST_F(CodeSyncTest, ASavedFileIsNoticed) {
  Open();
  Result<std::unique_ptr<EventLoop>> loop = EventLoop::Create();
  ASSERT_TRUE(loop.ok());
  int changes = 0;
  ASSERT_TRUE(sync_
                  ->Watch(loop->get(),
                          [&] {
                            ++changes;
                            (*loop)->Stop();
                          })
                  .ok());
  Write("src/model.py", "VERSION = 2\n");
  (*loop)->Run();
  EXPECT_EQ(changes, 1);
  sync_->StopWatching();
  EXPECT_TRUE(Sync());
}

}  // namespace
}  // namespace lockstep::cli
