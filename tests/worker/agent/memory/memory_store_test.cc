#include "worker/agent/memory/memory_store.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/base/loop_test_base.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

class MemoryStoreTest : public LoopTest, protected MemoryStore::Owner {
 protected:
  MemoryStoreTest() : tls_(std::move(*TlsPskContext::Client({}, "job"))) {
    std::string pattern = testing::TempDir() + "/store-XXXXXX";
    root_ = mkdtemp(pattern.data());
    MemoryStore::Options options{.run_dir = root_, .machine = 0, .size = 1 << 20};
    options.fetch_stored = [this](const core::MemoryPart&, const std::string& folder,
                                  uint64_t limit) -> Status {
      limit_ = limit;
      if (stored_.empty()) return Error::Unavailable("the store is down");
      fs::create_directory(folder);
      std::ofstream(folder + "/model") << stored_;
      return {};
    };
    store_ = std::move(*MemoryStore::Create(loop(), &tls_, std::move(options), this));
  }
  ~MemoryStoreTest() override {
    store_.reset();
    fs::remove_all(root_);
  }

  void OnPartHeld(core::MemoryPart part) override { held_.push_back(std::move(part)); }
  void OnFetchFailed(core::MemoryPart /*part*/, std::string reason) override {
    failed_ = std::move(reason);
  }
  void OnPersisted(core::Persisted persisted) override {
    persisted_.push_back(std::move(persisted));
  }

  // A process writes a folder that it is going to commit.
  void Write(const std::string& name, const std::string& text) const {
    fs::create_directories(Writing(name));
    std::ofstream(Writing(name) + "/model") << text;
  }
  std::string Writing(const std::string& name) const {
    return root_ + "/local/checkpoints/" + name;
  }
  // "": it is taken.
  std::string Take(uint64_t commit, const std::string& name) {
    std::optional<std::string> problem;
    store_->StorePart(commit, name, [&](std::string said) { problem = std::move(said); });
    EXPECT_TRUE(RunUntil([&] { return problem.has_value(); }));
    return problem.value_or("no answer");
  }
  core::MemoryPart Commit(uint64_t commit, const std::string& text, uint32_t machine = 0) {
    const core::MemoryPart part{{{1, 1}, static_cast<uint32_t>(commit)}, machine, "step-1"};
    Write("step-1", text);
    EXPECT_EQ(Take(commit, "step-1"), "");
    store_->Grant(commit, part, [](const Result<std::string>& path) { EXPECT_TRUE(path.ok()); });
    return part;
  }

  TlsPskContext tls_;
  std::string root_;
  std::unique_ptr<MemoryStore> store_;
  std::vector<core::MemoryPart> held_;
  std::vector<core::Persisted> persisted_;
  std::string stored_;  // in the object store; "": it is down
  uint64_t limit_ = 0;
  std::string failed_;
};

TEST_F(MemoryStoreTest, AGrantedPartIsHeldAndInItsPlaceAtOnce) {
  const core::MemoryPart part = Commit(3, "weights");
  EXPECT_EQ(held_, std::vector<core::MemoryPart>{part});
  EXPECT_EQ(store_->OwnPart(part.id), root_ + "/memory/1-1/0/000003.step-1");
  EXPECT_EQ(*ReadFile(store_->OwnPart(part.id) + "/model", 100), "weights");
  EXPECT_FALSE(fs::exists(Writing("step-1")));
}

TEST_F(MemoryStoreTest, ARefusedFolderLiesAgainWhereItWasWritten) {
  Write("step-1", "weights");
  EXPECT_EQ(Take(1, "step-1"), "");
  EXPECT_FALSE(fs::exists(Writing("step-1")));
  store_->Refuse(1);
  EXPECT_EQ(*ReadFile(Writing("step-1") + "/model", 100), "weights");
}

TEST_F(MemoryStoreTest, NoMoveOfAnEarlierGenerationTouchesWhatTheNextOneWrites) {
  Write("step-1", "old");
  Write("step-2", "old");
  EXPECT_EQ(Take(1, "step-1"), "");
  std::optional<std::string> problem;
  store_->StorePart(2, "step-2", [&](std::string said) { problem = std::move(said); });
  store_->BeginGeneration();
  Write("step-1", "new");
  Write("step-2", "new");
  ASSERT_TRUE(RunUntil([&] { return problem.has_value(); }));
  EXPECT_EQ(*problem, "the generation has ended");
  store_->Refuse(1);
  store_->Refuse(2);
  for (const char* name : {"step-1", "step-2"}) {
    EXPECT_EQ(*ReadFile(Writing(name) + "/model", 100), "new") << name;
  }
}

TEST_F(MemoryStoreTest, PersistingWritesThePartsThatAreAskedForAndRepeatsTheQuestion) {
  const core::MemoryPart part = Commit(1, "weights");
  const std::string work = root_ + "/ckpt";
  const core::Persist persist{part.id, {{1, 1}, 1}, part.name, {0}};
  int writes = 0;
  const MemoryStore::WriteParts write = [&](const auto& folders) {
    ++writes;
    return WriteParts(folders, work);
  };
  store_->Persist(persist, write);
  store_->Persist(persist, write);  // asked again around a reconnect
  store_->Drop({part});
  ASSERT_TRUE(RunUntil([&] { return !persisted_.empty(); }));
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(persisted_[0].error, "");
  EXPECT_EQ(persisted_[0].to, persist.to);
  EXPECT_EQ(persisted_[0].machines, persist.machines);
  EXPECT_EQ(*ReadFile(TreeOf(work) + "/model", 100), "weights");
  EXPECT_TRUE(RunUntil([&] { return store_->OwnPart(part.id).empty(); })) << "it was to be dropped";
  EXPECT_EQ(persisted_.size(), 1U);
}

TEST_F(MemoryStoreTest, ACopyIsPersistedBesideTheOwnPart) {
  Commit(1, "weights");
  bool written = false;
  store_->Persist({{{1, 1}, 1}, {{1, 1}, 1}, "step-1", {0, 1}}, [&](const auto&) {
    written = true;
    return Status();
  });
  ASSERT_TRUE(RunUntil([&] { return !persisted_.empty(); }));
  EXPECT_EQ(persisted_[0].error, "this machine holds no part of it");
  EXPECT_FALSE(written);
}

TEST_F(MemoryStoreTest, APartFromTheObjectStoreIsHeldOnceItIsThere) {
  const core::MemoryPart part{{{1, 7}, 2}, 0, "step-2"};
  stored_ = "weights";
  store_->Fetch({part, ""});
  store_->Fetch({part, ""});  // asked again around a reconnect
  ASSERT_TRUE(RunUntil([&] { return !held_.empty(); }));
  EXPECT_EQ(held_, std::vector<core::MemoryPart>{part});
  EXPECT_EQ(*ReadFile(store_->OwnPart(part.id) + "/model", 100), "weights");
  EXPECT_EQ(limit_, uint64_t{1} << 20);
}

TEST_F(MemoryStoreTest, APartThatTheObjectStoreDoesNotGiveLeavesNothing) {
  const core::MemoryPart part{{{1, 7}, 2}, 0, "step-2"};
  store_->Fetch({part, ""});
  ASSERT_TRUE(RunUntil([&] { return !failed_.empty(); }));
  EXPECT_EQ(failed_, "the store is down");
  EXPECT_EQ(store_->OwnPart(part.id), "");
  stored_ = "weights";
  store_->Fetch({part, ""});
  EXPECT_TRUE(RunUntil([&] { return !held_.empty(); })) << "a later try may succeed";
}

}  // namespace
}  // namespace lockstep::agent
