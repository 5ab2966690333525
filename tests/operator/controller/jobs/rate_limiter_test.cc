#include "operator/controller/jobs/rate_limiter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace lockstep::control {
namespace {

// Takes all it may have, up to `most`; how many that is.
int Take(RateLimiter& limiter, const std::string& name_space, Time now, int most = 1000,
         size_t machines = 100) {
  const int taken = std::min(limiter.Allowed(name_space, machines, now), most);
  limiter.OnReplaced(name_space, taken, now);
  return taken;
}

TEST(RateLimiter, GivesOneNamespaceTenAMinuteOrTheTwentiethPartOfTheCluster) {
  RateLimiter limiter;
  EXPECT_EQ(Take(limiter, "a", seconds(0)), 10);
  EXPECT_EQ(Take(limiter, "a", seconds(59)), 0);
  EXPECT_EQ(Take(limiter, "a", seconds(60)), 10);
  RateLimiter large;
  EXPECT_EQ(Take(large, "a", seconds(0), 5000, 2000), 100);
}

TEST(RateLimiter, LeavesRoomForTheNamespacesThatComeLater) {
  RateLimiter limiter;
  EXPECT_EQ(Take(limiter, "a", seconds(0)), 10);
  EXPECT_EQ(Take(limiter, "b", seconds(1)), 5);
  EXPECT_EQ(Take(limiter, "c", seconds(2)), 3);
  EXPECT_EQ(Take(limiter, "d", seconds(3)), 1);
  EXPECT_EQ(Take(limiter, "e", seconds(4)), 1);
}

// A tenant whose ranks end their agents all the time, beside many who lose a machine now and then.
TEST(RateLimiter, MakesNobodyWaitForATenantWhoWantsEverything) {
  RateLimiter limiter;
  std::map<std::string, int> waits;
  int greedy = 0;
  for (int second = 0; second < 3600; ++second) {
    const Time now = seconds(second);
    greedy += Take(limiter, "greedy", now);
    if (second % 10 != 0) continue;
    const std::string other = "tenant-" + std::to_string(second / 10 % 40);
    if (Take(limiter, other, now, 1) == 0) ++waits[other];
  }
  EXPECT_TRUE(waits.empty()) << waits.begin()->first << " waits";
  EXPECT_LE(greedy, 60 * 10);
}

TEST(RateLimiter, NeverExceedsTheClustersTotal) {
  RateLimiter limiter;
  int all = 0;
  for (int i = 0; i < 100; ++i) all += Take(limiter, "tenant-" + std::to_string(i), seconds(1));
  EXPECT_EQ(all, 20);
}

}  // namespace
}  // namespace lockstep::control
