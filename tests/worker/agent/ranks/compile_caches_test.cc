#include "worker/agent/ranks/compile_caches.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

class CompileCachesTest : public testing::Test {
 protected:
  CompileCachesTest() {
    std::string pattern = testing::TempDir() + "caches-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~CompileCachesTest() override { fs::remove_all(root_); }

  fs::path Write(const std::string& name, const std::string& text = "x") {
    const fs::path path = root_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }
  std::set<std::string> Files() const {
    std::set<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      if (entry.is_regular_file()) {
        files.insert(entry.path().lexically_relative(root_).string());
      }
    }
    return files;
  }
  static std::string Library() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static fs::file_time_type Now() { return fs::file_time_type::clock::now(); }

  fs::path root_;
};

TEST_F(CompileCachesTest, HaveAFolderForEachCompiler) {
  MakeCompileCaches(root_.string());
  EXPECT_TRUE(fs::is_directory(root_ / "kernels"));
  EXPECT_TRUE(fs::is_directory(root_ / "extensions"));
  MakeCompileCaches("/proc/not/possible");
}

TEST_F(CompileCachesTest, LoseTheLocksAndTemporaryFilesOfKilledRanks) {
  Write("extensions/py311_cpu/fused_adam/lock");
  Write("extensions/py311_cpu/fused_adam/build.ninja");
  Write("inductor/locks/cabc.lock");
  Write("inductor/fxgraph/ab/.4711.139.tmp");
  Write("inductor/fxgraph/ab/cabc");
  Write("triton/KEY/tmp.pid_4711_0af/kernel.cubin");
  Write("triton/KEY/kernel.cubin");
  Write("jax/.lockfile");
  Write("jax/jit_step-1-cache");
  EXPECT_EQ(ClearHalfMade(root_.string(), Now() + std::chrono::seconds(1), seconds(60)), 5);
  EXPECT_THAT(Files(), UnorderedElementsAre("extensions/py311_cpu/fused_adam/build.ninja",
                                            "inductor/fxgraph/ab/cabc", "triton/KEY/kernel.cubin",
                                            "jax/jit_step-1-cache"));
}

TEST_F(CompileCachesTest, LoseLibrariesWhoseLinkerWasKilled) {
  const std::string whole = Library();
  Write("inductor/a/whole.so", whole);
  Write("inductor/a/half.so", whole.substr(0, whole.size() / 2));
  Write("inductor/a/empty.so", "");
  Write("inductor/a/text.so", std::string(4096, '\0'));
  EXPECT_EQ(ClearHalfMade(root_.string(), Now() + std::chrono::seconds(1), seconds(60)), 3);
  EXPECT_THAT(Files(), UnorderedElementsAre("inductor/a/whole.so"));
}

TEST_F(CompileCachesTest, HoldUpNoStartForLongerThanTheirLimit) {
  Write("extensions/fused_adam/lock");
  EXPECT_EQ(ClearHalfMade(root_.string(), Now() + std::chrono::seconds(1), Duration(0)), 0);
}

TEST_F(CompileCachesTest, KeepWhatTheNextGenerationMakesMeanwhile) {
  const fs::path lock = Write("extensions/fused_adam/lock");
  EXPECT_EQ(ClearHalfMade(root_.string(), fs::last_write_time(lock), seconds(60)), 0);
  EXPECT_THAT(Files(), UnorderedElementsAre("extensions/fused_adam/lock"));
  EXPECT_EQ(ClearHalfMade(root_.string() + "/missing", Now(), seconds(60)), 0);
}

}  // namespace
}  // namespace lockstep::agent
