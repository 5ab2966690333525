#include "worker/agent/storage/compile_caches.h"

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
  Write("kernels/sm90_7f3e_tmp_4711");
  Write("kernels/sm90_7f3e");
  Write("jax/.lockfile");
  Write("jax/jit_step-1-cache");
  EXPECT_EQ(ClearHalfMade(root_.string(), Now() + std::chrono::seconds(1), seconds(60)), 6);
  EXPECT_THAT(Files(), UnorderedElementsAre("extensions/py311_cpu/fused_adam/build.ninja",
                                            "kernels/sm90_7f3e", "inductor/fxgraph/ab/cabc",
                                            "triton/KEY/kernel.cubin", "jax/jit_step-1-cache"));
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

CopyLimits Limits(uint64_t bytes = 1 << 20, Duration time = seconds(60)) {
  return {.bytes = bytes, .time = time, .stop = nullptr};
}

class CachesOnAClaimTest : public CompileCachesTest {
 protected:
  CachesOnAClaimTest() { MakeCompileCaches(local_); }
  CachesCopied Keep(const CopyLimits& limits = Limits()) {
    return KeepCaches(local_, claim_, Now() + std::chrono::seconds(1), limits);
  }
  CachesCopied Fetch(const CopyLimits& limits = Limits()) {
    MakeCompileCaches(other_);
    return FetchCaches(claim_, other_, limits);
  }

  std::string local_ = (root_ / "local").string();
  std::string claim_ = (root_ / "claim").string();
  std::string other_ = (root_ / "other").string();
};

TEST_F(CachesOnAClaimTest, AreTheSameOnAnotherMachine) {
  const fs::path made = Write("local/extensions/py311_cpu/adam/adam.o", "object");
  fs::last_write_time(made, Now() - std::chrono::hours(5));
  Write("local/inductor/fxgraph/ab/cabc", "graph");
  EXPECT_EQ(Keep().files, 2);
  EXPECT_EQ(Keep().files, 0);
  const CachesCopied fetched = Fetch();
  EXPECT_EQ(fetched.files, 2);
  EXPECT_EQ(fetched.bytes, 11U);
  EXPECT_EQ(fs::last_write_time(root_ / "other/extensions/py311_cpu/adam/adam.o"),
            fs::last_write_time(made));
  EXPECT_TRUE(fs::is_regular_file(root_ / "other/inductor/fxgraph/ab/cabc"));
  EXPECT_FALSE(fs::exists(root_ / "other/.fetched"));
}

TEST_F(CachesOnAClaimTest, HaveNothingHalfMadeNorYoungerThanTheRanks) {
  Write("local/extensions/adam/lock");
  Write("local/inductor/ab/.4711.139.tmp");
  Write("local/inductor/ab/half.so", Library().substr(0, 5000));
  Write("local/triton/KEY/tmp.pid_4711_0af/kernel.cubin");
  fs::create_symlink("/etc/passwd", root_ / "local/triton/link");
  const fs::path young = Write("local/triton/KEY/kernel.cubin");
  fs::last_write_time(young, Now() + std::chrono::hours(1));
  const CachesCopied kept = Keep();
  EXPECT_EQ(kept.files, 0);
  EXPECT_TRUE(kept.whole);
}

TEST_F(CachesOnAClaimTest, LoseWhatWasHalfCopiedThere) {
  const fs::path old = Write("claim/triton/KEY/.4711.tmp");
  fs::last_write_time(old, Now() - std::chrono::hours(2));
  Keep();
  EXPECT_FALSE(fs::exists(old));
}

TEST_F(CachesOnAClaimTest, StayWithinTheirLimits) {
  Write("local/triton/A/a", std::string(600, 'a'));
  Write("local/triton/B/b", std::string(600, 'b'));
  const CachesCopied kept = Keep(Limits(1000));
  EXPECT_EQ(kept.files, 1);
  EXPECT_FALSE(kept.whole);
  EXPECT_FALSE(Keep(Limits(1 << 20, Duration(0))).whole);
  EXPECT_EQ(Keep().files, 1);
  // Half of a compiler's cache is none.
  EXPECT_EQ(Fetch(Limits(1000)).files, 0);
  EXPECT_TRUE(fs::is_empty(root_ / "other/triton"));
  CopyLimits stopped = Limits();
  stopped.stop = std::make_shared<std::atomic<bool>>(true);
  EXPECT_EQ(Fetch(stopped).files, 0);
}

TEST_F(CachesOnAClaimTest, AreNotFetchedOverWhatARankHasMade) {
  Write("local/triton/A/a");
  Write("local/inductor/ab/b");
  Keep();
  Write("other/triton/mine");
  EXPECT_EQ(Fetch().files, 1);
  EXPECT_TRUE(fs::is_regular_file(root_ / "other/inductor/ab/b"));
  EXPECT_FALSE(fs::exists(root_ / "other/triton/A"));
}

}  // namespace
}  // namespace lockstep::agent
