#include "worker/trainer/process/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace lockstep::trainer {
namespace {

TEST(ThreadsTest, RunEachBlockOnceBeforeForReturns) {
  for (const int count : {1, 2, 5}) {
    Threads threads(count);
    EXPECT_EQ(threads.count(), count);
    for (size_t blocks = 0; blocks < 300; ++blocks) {
      std::vector<int> runs(blocks);  // not atomic: ThreadSanitizer sees what For orders
      threads.For(blocks, [&](size_t i) { ++runs[i]; });
      EXPECT_EQ(runs, std::vector<int>(blocks, 1));
    }
  }
}

TEST(ThreadsTest, AreMoreThanOneAtWork) {
  Threads threads(2);
  std::atomic<int> inside = 0;
  threads.For(2, [&](size_t) {
    inside.fetch_add(1);
    inside.notify_all();
    for (int now = inside.load(); now < 2; now = inside.load()) inside.wait(now);
  });
  EXPECT_EQ(inside.load(), 2);
}

TEST(ThreadsTest, ServeOneCallerAfterAnother) {
  Threads threads(3);
  std::vector<int> sums(64);
  for (int round = 0; round < 2000; ++round) {
    threads.For(sums.size(), [&](size_t i) { sums[i] += round; });
  }
  EXPECT_EQ(sums, std::vector<int>(64, 1999 * 1000));
}

}  // namespace
}  // namespace lockstep::trainer
