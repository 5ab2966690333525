#include "worker/trainer/collectives/agreed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"

namespace lockstep::collectives {
namespace {

TEST(AgreedTest, WhoComesLaterToTheSameErrorHearsOfNoOther) {
  Options options = TestOptions(3);
  std::atomic<int> failures{0};
  options.on_failure = [&](const Error&) { ++failures; };
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      Options mine = options;
      mine.rank = rank;
      auto made = Connect(mine);
      ASSERT_TRUE(made.ok()) << made.error().message;
      std::this_thread::sleep_for(rank * milliseconds(200));
      EXPECT_EQ(Agreed(Error::Invalid("all see it"), **made).message, "all see it");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace lockstep::collectives
