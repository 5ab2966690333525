#include "base/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "tests/base/no_threads.h"

namespace lockstep {
namespace {

TEST(StartThread, RunsItsWork) {
  bool ran = false;
  Result<std::thread> thread = StartThread([&ran] { ran = true; });
  ASSERT_TRUE(thread.ok());
  thread->join();
  EXPECT_TRUE(ran);
}

TEST(StartThread, IsAnErrorWhereTheSystemHasNoneLeft) {
  const NoThreads none;
  const Result<std::thread> thread = StartThread([] {});
  ASSERT_FALSE(thread.ok());
  EXPECT_EQ(thread.error().kind, ErrorKind::kInternal);
  EXPECT_THAT(thread.error().message, testing::HasSubstr("no thread can be started"));
}

TEST(StartThread, ThrowsForAConstructorAndNamesTheLimit) {
  const NoThreads none;
  try {
    StartThreadOrThrow([] {}).join();
    ADD_FAILURE() << "a thread was started";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("pids.max"));
  }
}

TEST(ThreadGroup, JoinsTheThreadsThatItHasThoughAnotherCannotBeStarted) {
  std::atomic<int> ran{0};
  {
    ThreadGroup group;
    ASSERT_TRUE(group.Start([&ran] { ++ran; }).ok());
    const NoThreads none;
    EXPECT_FALSE(group.Start([&ran] { ++ran; }).ok());
    EXPECT_EQ(group.size(), 1U);
  }
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace lockstep
