#include "operator/controller/jobs/progress_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace lockstep::control {
namespace {

constexpr Duration kApart = milliseconds(50);

TEST(ProgressTurns, GivesOneThatComesWhenItIsFreeNoTurnToWaitFor) {
  ProgressTurns turns;
  ProgressTurns::Turn turn;
  EXPECT_TRUE(turns.MayTell(turn, seconds(1)));
  turns.Pass(true, &turn, seconds(1));
  EXPECT_FALSE(turn);
  EXPECT_FALSE(turns.MayTell(turn, seconds(1) + kApart - milliseconds(1)));
  EXPECT_TRUE(turns.MayTell(turn, seconds(1) + kApart));
}

// Jobs that all have news at once, and again every `every`; each comes when it was told to.
std::map<size_t, std::vector<Time>> Play(size_t jobs, Duration every, Duration total) {
  ProgressTurns turns;
  std::vector<ProgressTurns::Turn> waits(jobs);
  std::vector<Time> news(jobs, seconds(1));  // from when on it has some
  std::map<size_t, std::vector<Time>> told;
  for (Time now = seconds(1); now < seconds(1) + total; now += milliseconds(10)) {
    for (size_t job = 0; job < jobs; ++job) {
      if (now < waits[job].value_or(news[job])) continue;
      if (!turns.MayTell(waits[job], now)) {
        turns.Wait(&waits[job], now);
        continue;
      }
      turns.Pass(true, &waits[job], now);
      told[job].push_back(now);
      news[job] = now + every;
    }
  }
  return told;
}

TEST(ProgressTurns, LetsEveryoneOfManyTellEquallyOftenAndNobodyTwiceInOneTurn) {
  const auto told = Play(1000, seconds(30), seconds(500));
  ASSERT_EQ(told.size(), 1000U);
  std::vector<Time> all;
  for (const auto& [job, times] : told) {
    EXPECT_EQ(times.size(), 10U) << job;  // 1,000 take 50 s
    all.insert(all.end(), times.begin(), times.end());
  }
  std::sort(all.begin(), all.end());
  for (size_t i = 1; i < all.size(); ++i) EXPECT_GE(all[i] - all[i - 1], kApart);
}

TEST(ProgressTurns, DelaysNobodyWhereJobsAreFew) {
  for (const auto& [job, times] : Play(100, seconds(30), seconds(300))) {
    EXPECT_EQ(times.size(), 10U) << job;
  }
}

TEST(ProgressTurns, KeepNoTurnForOneThatHadNothingToTellWhenItsOwnCame) {
  ProgressTurns turns;
  ProgressTurns::Turn first;
  ProgressTurns::Turn second;
  turns.Pass(true, &first, seconds(1));
  turns.Wait(&second, seconds(1));
  ASSERT_EQ(second, seconds(1) + kApart);
  turns.Pass(false, &second, seconds(1));  // about something else, before its turn
  EXPECT_TRUE(second);
  turns.Pass(false, &second, seconds(2));
  EXPECT_FALSE(second);
  turns.Pass(true, &first, seconds(3));
  EXPECT_FALSE(turns.MayTell(second, seconds(3)));
}

TEST(ProgressTurns, TakesTheTurnOfOneThatToldBeforeIt) {
  ProgressTurns turns;
  ProgressTurns::Turn turn;
  turns.Pass(true, &turn, seconds(1));
  turns.Wait(&turn, seconds(1));
  turns.Pass(true, &turn, seconds(1));  // it ended, say
  EXPECT_FALSE(turn);
  EXPECT_TRUE(turns.MayTell(turn, seconds(1) + 2 * kApart));
}

}  // namespace
}  // namespace lockstep::control
