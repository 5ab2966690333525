#include "base/thread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lockstep
