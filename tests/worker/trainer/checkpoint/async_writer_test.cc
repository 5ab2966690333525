#include "worker/trainer/checkpoint/async_writer.h"

#include <gmock/gmock.h>

#include <future>

#include "tests/base/no_threads.h"
#include "tests/worker/trainer/checkpoint/checkpoint_test_base.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class AsyncWriterTest : public CheckpointTestBase {
 protected:
  static Manifest AtStep(int64_t step) {
    Manifest manifest = SomeManifest();
    manifest.step = step;
    return manifest;
  }
};

Result<std::string> Stay(const std::string& folder) { return folder; }

TEST_F(AsyncWriterTest, WhatIsWrittenIsTheStateAtBegin) {
  OwnedState state(kTiny, 1);
  AsyncWriter writer(kTiny, Stay);
  ASSERT_TRUE(writer.Begin(Path("a"), state.saved(), AtStep(5)).ok());
  state = OwnedState(kTiny, 1000);  // training goes on
  std::optional<Result<std::string>> done = writer.Wait();
  ASSERT_TRUE(done && done->ok());
  EXPECT_EQ(**done, Path("a"));
  Result<Manifest> manifest = ReadCheckpoint(Path("a"), kTiny, state.view());
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(manifest->step, 5);
  EXPECT_EQ(state, OwnedState(kTiny, 1));
}

TEST_F(AsyncWriterTest, CommitSeesAWholeCheckpointOnAnotherThreadAndSaysWhereItIs) {
  std::thread::id committed_on;
  bool complete = false;
  AsyncWriter writer(kTiny, [&](const std::string& folder) -> Result<std::string> {
    committed_on = std::this_thread::get_id();
    OwnedState read(kTiny);
    complete = ReadCheckpoint(folder, kTiny, read.view()).ok();
    fs::rename(folder, Path("000001.a"));
    return Path("000001.a");
  });
  ASSERT_TRUE(writer.Begin(Path("a"), OwnedState(kTiny).saved(), AtStep(1)).ok());
  std::optional<Result<std::string>> done = writer.Wait();
  ASSERT_TRUE(done && done->ok());
  EXPECT_EQ(**done, Path("000001.a"));
  EXPECT_TRUE(complete);
  EXPECT_NE(committed_on, std::this_thread::get_id());
}

TEST_F(AsyncWriterTest, WithoutAThreadItWritesAtOnce) {
  const NoThreads none;
  AsyncWriter writer(kTiny, Stay);
  OwnedState state(kTiny, 1);
  ASSERT_TRUE(writer.Begin(Path("a"), state.saved(), AtStep(5)).ok());
  EXPECT_FALSE(writer.busy());
  std::optional<Result<std::string>> done = writer.Wait();
  ASSERT_TRUE(done && done->ok());
  EXPECT_EQ(ReadCheckpoint(Path("a"), kTiny, state.view())->step, 5);
  EXPECT_EQ(state, OwnedState(kTiny, 1));
}

TEST_F(AsyncWriterTest, OneIsLeftOutWhileTheLastIsUnderWay) {
  std::promise<void> go_on;
  AsyncWriter writer(kTiny, [&](const std::string& folder) {
    go_on.get_future().wait();
    return Stay(folder);
  });
  OwnedState state(kTiny);
  EXPECT_FALSE(writer.busy());
  EXPECT_FALSE(writer.Poll().has_value());
  ASSERT_TRUE(writer.Begin(Path("a"), state.saved(), AtStep(1)).ok());
  EXPECT_TRUE(writer.busy());
  Status second = writer.Begin(Path("b"), state.saved(), AtStep(2));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kConflict);
  EXPECT_THAT(second.error().message, HasSubstr("step 2 is left out"));
  EXPECT_FALSE(writer.Poll().has_value());
  go_on.set_value();
  std::optional<Result<std::string>> done = writer.Wait();
  ASSERT_TRUE(done && done->ok());
  EXPECT_FALSE(fs::exists(Path("b")));
  EXPECT_FALSE(writer.Wait().has_value());
}

TEST_F(AsyncWriterTest, OutcomesAreToldOnceInTheirOrder) {
  OwnedState state(kTiny);
  AsyncWriter writer(kTiny, Stay);
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(writer.Begin(Path(name), state.saved(), AtStep(1)).ok());
    while (writer.busy()) std::this_thread::yield();
  }
  for (const char* name : {"a", "b", "c"}) {
    std::optional<Result<std::string>> done = writer.Poll();
    ASSERT_TRUE(done && done->ok());
    EXPECT_EQ(**done, Path(name));
  }
  EXPECT_FALSE(writer.Poll().has_value());
}

TEST_F(AsyncWriterTest, ARefusedCommitRemovesTheFolder) {
  AsyncWriter writer(kTiny, [](const std::string&) -> Result<std::string> {
    return Error::Conflict("this generation is over");
  });
  ASSERT_TRUE(writer.Begin(Path("a"), OwnedState(kTiny).saved(), AtStep(1)).ok());
  std::optional<Result<std::string>> done = writer.Wait();
  ASSERT_TRUE(done && !done->ok());
  EXPECT_EQ(done->error().message, "this generation is over");
  EXPECT_FALSE(fs::exists(Path("a")));
}

TEST_F(AsyncWriterTest, AFailureIsToldAndTheNextOneIsTried) {
  WriteText(Path("file"), "");
  OwnedState state(kTiny);
  bool committed = false;
  AsyncWriter writer(kTiny, [&](const std::string& folder) {
    committed = true;
    return Stay(folder);
  });
  ASSERT_TRUE(writer.Begin(Path("file/a"), state.saved(), AtStep(1)).ok());
  std::optional<Result<std::string>> done = writer.Wait();
  ASSERT_TRUE(done && !done->ok());
  EXPECT_THAT(done->error().message, HasSubstr(Path("file/a")));
  EXPECT_FALSE(committed);
  ASSERT_TRUE(writer.Begin(Path("b"), state.saved(), AtStep(2)).ok());
  done = writer.Wait();
  EXPECT_TRUE(done && done->ok());
}

TEST_F(AsyncWriterTest, ItsEndWaitsForWhatIsUnderWay) {
  OwnedState state(kTiny, 4);
  {
    AsyncWriter writer(kTiny, Stay);
    ASSERT_TRUE(writer.Begin(Path("a"), state.saved(), AtStep(1)).ok());
  }
  OwnedState read(kTiny);
  EXPECT_TRUE(ReadCheckpoint(Path("a"), kTiny, read.view()).ok());
  EXPECT_EQ(read, state);
}

}  // namespace
}  // namespace lockstep::trainer
