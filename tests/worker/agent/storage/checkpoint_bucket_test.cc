#include "worker/agent/storage/checkpoint_bucket.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/file.h"
#include "tests/base/loop_test_base.h"

namespace lockstep::agent::checkpoint_bucket_test {
namespace {

namespace fs = std::filesystem;

// In place of lockstep-s3 is a script that prints the answer of its command, and notes what it was
// asked.
class CheckpointBucketTest : public LoopTest {
 protected:
  CheckpointBucketTest() {
    std::string pattern = testing::TempDir() + "/bucket-XXXXXX";
    root_ = mkdtemp(pattern.data());
    spawner_ = std::move(*Spawner::Create());
    WriteScript("echo \"$@\" >> " + root_ +
                "/asked; while [ ${1#--} != $1 ]; do shift; done; cat " + root_ + "/$1");
    store_.emplace(loop(), spawner_.get(), root_ + "/lockstep-s3", "s3://bucket/run",
                   std::vector<std::string>{"AWS_ACCESS_KEY_ID=of-the-secret"},
                   ObjectStore::Handlers{.leave_out = [this](pid_t) { ++left_out_; },
                                         .take_in = [this](pid_t pid) { ++taken_in_, Reap(pid); }});
    Answers("begin", R"({"generation": "2-1"})");
  }
  ~CheckpointBucketTest() override {
    store_.reset();
    fs::remove_all(root_);
  }

  static void Reap(pid_t pid) { waitpid(pid, nullptr, 0); }
  void WriteScript(const std::string& line) const {
    const std::string script = "#!/bin/sh\n" + line + "\n";
    ASSERT_TRUE(WriteFileAtomically(root_ + "/lockstep-s3", script, {.mode = 0755}).ok());
  }
  void Answers(const std::string& command, const std::string& json) const {
    std::ofstream(root_ + "/" + command) << json;
  }
  std::string Asked() const {
    const Result<std::string> asked = ReadFile(root_ + "/asked", 1 << 16);
    return asked.ok() ? *asked : "";
  }
  CheckpointBucket Bucket(const std::string& resume = "Auto",
                          CheckpointBucket::Limits limits = {}) {
    return {&*store_, "job", resume, 1, limits};
  }
  // On a thread of its own, as the FileWorker has it.
  template <typename Work>
  auto Away(Work work) {
    std::optional<decltype(work())> result;
    std::thread away([&] {
      auto answer = work();
      loop()->PostFromAnyThread([&, answer = std::move(answer)] { result.emplace(answer); });
    });
    EXPECT_TRUE(RunUntil([&] { return result.has_value(); }));
    away.join();
    return *std::move(result);
  }

  std::string root_;
  std::unique_ptr<Spawner> spawner_;
  std::optional<ObjectStore> store_;
  int left_out_ = 0;
  int taken_in_ = 0;
};

TEST_F(CheckpointBucketTest, AGenerationResumesFromTheNewestCommitOfTheOneBefore) {
  Answers("state", R"({"generations": [{"generation": "1-1", "jobUID": "job", "resumes": ""},
                                       {"generation": "1-2", "jobUID": "job", "resumes": ""}],
                       "commits": ["1-1/000009.step-9", "1-2/000001.step-1", "1-2/000002.step-2"]})");
  const auto begun = Away([bucket = Bucket()] { return bucket.BeginGeneration({2, 1}); });
  ASSERT_TRUE(begun.ok()) << begun.error().message;
  EXPECT_EQ(begun->resumes, "s3://bucket/run/checkpoints/1-2/000002.step-2");
  EXPECT_EQ(begun->commit, (core::CheckpointId{{1, 2}, 2}));
  EXPECT_NE(Asked().find("begin --generation=2-1 --job=job --resumes=1-2/000002.step-2"),
            std::string::npos)
      << Asked();
  EXPECT_TRUE(RunUntil([&] { return taken_in_ == left_out_; }));
}

TEST_F(CheckpointBucketTest, AGenerationWithoutACommitHandsOnWhatItResumedFrom) {
  Answers("state",
          R"({"generations": [{"generation": "1-1", "jobUID": "job", "resumes": ""},
                              {"generation": "1-2", "jobUID": "job", "resumes": "1-1/000002.step-2"}],
              "commits": ["1-1/000002.step-2", "1-1/000003.late"]})");
  const auto begun = Away([bucket = Bucket()] { return bucket.BeginGeneration({2, 1}); });
  ASSERT_TRUE(begun.ok()) << begun.error().message;
  EXPECT_EQ(begun->resumes, "s3://bucket/run/checkpoints/1-1/000002.step-2");
  EXPECT_EQ(begun->commit, (core::CheckpointId{{1, 1}, 2}));
}

TEST_F(CheckpointBucketTest, OtherJobsAndLaterAttemptsBeginNothing) {
  Answers("state",
          R"({"generations": [{"generation": "3-4", "jobUID": "another", "resumes": ""}]})");
  const auto refused = Away([bucket = Bucket()] { return bucket.BeginGeneration({2, 1}); });
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  Answers("state", R"({"generations": [{"generation": "3-4", "jobUID": "job", "resumes": ""}]})");
  const auto later = Away([bucket = Bucket()] { return bucket.BeginGeneration({2, 1}); });
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->later, 3U);
  EXPECT_EQ(Asked().find("begin"), std::string::npos);
}

TEST_F(CheckpointBucketTest, ErrorsKeepTheirKindAndTheirWords) {
  Answers("commit", R"({"error": {"kind": "conflict", "message": "generation 2-1 is over"}})");
  const Status done =
      Away([bucket = Bucket()] { return bucket.FinishPersisting({{2, 1}, 3}, "step-3", 2); });
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(done.error().message, "generation 2-1 is over");
  EXPECT_NE(Asked().find("--checkpoint=2-1/000003.step-3 --job=job --machines=2"),
            std::string::npos)
      << Asked();
}

TEST_F(CheckpointBucketTest, AProgramThatIsMissingOrSaysNothingIsAnError) {
  WriteScript("exit 3");
  const Status silent =
      Away([bucket = Bucket()] { return bucket.WritePart({{2, 1}, 1}, "step-1", 0, "/run/part"); });
  ASSERT_FALSE(silent.ok());
  EXPECT_EQ(silent.error().kind, ErrorKind::kUnavailable);
  fs::remove(root_ + "/lockstep-s3");
  const Status missing =
      Away([bucket = Bucket()] { return bucket.WritePart({{2, 1}, 1}, "step-1", 0, "/run/part"); });
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("beside the agent"), std::string::npos);
}

TEST_F(CheckpointBucketTest, OldCheckpointsAreDeletedAsTheJobAsks) {
  Answers("prune", "{}");
  const CheckpointBucket::Limits limits{.keep = 5, .every = hours(24)};
  EXPECT_TRUE(Away([bucket = Bucket("Auto", limits)] { return bucket.Prune({2, 1}); }).ok());
  EXPECT_NE(Asked().find("prune --generation=2-1 --job=job --keep=5 --keep-every=24h"),
            std::string::npos)
      << Asked();
}

TEST_F(CheckpointBucketTest, OnlyUploadsHaveTheLimitOfBandwidth) {
  Answers("put-part", "{}");
  Answers("fetch", "{}");
  const CheckpointBucket bucket = Bucket("Auto", {.upload_bandwidth = 1000});
  EXPECT_TRUE(Away([&] { return bucket.WritePart({{2, 1}, 1}, "step-1", 0, "/run/part"); }).ok());
  EXPECT_NE(Asked().find(" --bandwidth=1000 put-part "), std::string::npos) << Asked();
  const core::MemoryPart part{.id = {{2, 1}, 1}, .name = "step-1"};
  EXPECT_TRUE(Away([&] { return bucket.FetchPart(part, 1, "/run/part", 1 << 20); }).ok());
  EXPECT_EQ(Asked().rfind("bandwidth"), Asked().find("bandwidth")) << Asked();
}

TEST_F(CheckpointBucketTest, TheProgramGetsTheCredentialsOfTheSecret) {
  setenv("AWS_ACCESS_KEY_ID", "of-the-pod", 1);
  setenv("AWS_SESSION_TOKEN", "of-the-pod", 1);
  WriteScript("echo $AWS_ACCESS_KEY_ID/$AWS_SESSION_TOKEN > " + root_ + "/seen; echo {}");
  EXPECT_TRUE(Away([bucket = Bucket()] { return bucket.Prune({2, 1}); }).ok());
  const Result<std::string> seen = ReadFile(root_ + "/seen", 1 << 10);
  ASSERT_TRUE(seen.ok());
  EXPECT_EQ(*seen, "of-the-secret/\n");
  unsetenv("AWS_ACCESS_KEY_ID");
  unsetenv("AWS_SESSION_TOKEN");
}

TEST(StoreVariables, LeaveTheEnvironmentOfThisProcess) {
  setenv("LOCKSTEP_STORE_AWS_REGION", "eu=1", 1);
  setenv("LOCKSTEP_STORE_", "nothing", 1);
  EXPECT_EQ(TakeStoreVariables(), std::vector<std::string>{"AWS_REGION=eu=1"});
  EXPECT_EQ(getenv("LOCKSTEP_STORE_AWS_REGION"), nullptr);
  EXPECT_EQ(getenv("LOCKSTEP_STORE_"), nullptr);
  EXPECT_TRUE(TakeStoreVariables().empty());
}

TEST(StoreVariables, TakeThePlaceOfTheAgentsOwn) {
  using List = std::vector<std::string>;
  const List own = {"A=1", "AWS_REGION=eu", "AWS_SECRET_ACCESS_KEY=pod", "AWS_SESSION_TOKEN=pod"};
  EXPECT_EQ(StoreEnvironment(own, {}), own);
  EXPECT_EQ(StoreEnvironment(own, {"AWS_REGION=us"}),
            (List{"A=1", "AWS_SECRET_ACCESS_KEY=pod", "AWS_SESSION_TOKEN=pod", "AWS_REGION=us"}));
  EXPECT_EQ(StoreEnvironment(own, {"AWS_SECRET_ACCESS_KEY=secret"}),
            (List{"A=1", "AWS_REGION=eu", "AWS_SECRET_ACCESS_KEY=secret"}));
}

TEST_F(CheckpointBucketTest, ClosingEndsWhatRunsAndWhatFollows) {
  WriteScript("touch " + root_ + "/runs; exec sleep 600");
  auto answer =
      std::async(std::launch::async, [bucket = Bucket()] { return bucket.Prune({2, 1}); });
  while (!fs::exists(root_ + "/runs")) Settle();
  store_->Close();
  // The loop no longer runs.
  EXPECT_EQ(answer.get().error().message, "the agent is leaving");
  const Status after =
      std::async(std::launch::async, [bucket = Bucket()] { return bucket.Prune({2, 1}); }).get();
  EXPECT_EQ(after.error().message, "the agent is leaving");
}

}  // namespace
}  // namespace lockstep::agent::checkpoint_bucket_test
