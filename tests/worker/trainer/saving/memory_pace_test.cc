#include "worker/trainer/saving/memory_pace.h"

#include <gtest/gtest.h>

#include <utility>

namespace lockstep::trainer {
namespace {

constexpr Time kBegin = seconds(1000);

struct Trained {
  int saves = 0;
  Duration costs{};
  Duration took{};
};

// Steps of one length, of which each checkpoint makes the rest longer by `cost`.
Trained Train(Duration step, Duration cost, Duration for_long) {
  Trained run;
  MemoryPace pace(kBegin);
  Time now = kBegin;
  Duration known{};
  int64_t steps = 1;
  while (now < kBegin + for_long) {
    now += step * steps;
    const MemoryPace::Decision decision = pace.Decide(now, steps, known, false);
    steps = decision.look;
    if (decision.save == 0) continue;
    ++run.saves;
    known = cost;
    run.costs += cost;
    now += cost;
  }
  run.took = now - kBegin;
  return run;
}

TEST(MemoryPace, CheckpointsCostTheirShareOfTheTimeAndNoMore) {
  for (const auto& [step, cost] : {std::pair<Duration, Duration>{milliseconds(5), milliseconds(20)},
                                   {milliseconds(50), milliseconds(300)},
                                   {seconds(2), seconds(3)}}) {
    const Trained run = Train(step, cost, seconds(1000));
    EXPECT_GT(run.saves, 5);
    // The first one comes before anything was earned.
    EXPECT_LE(run.costs - cost, run.took / 50) << Seconds(step);
    EXPECT_GE(run.costs, run.took / 70) << Seconds(step);
  }
}

TEST(MemoryPace, TheFirstOneIsMadeAtOnceAndNoneWhileAnotherIsWritten) {
  MemoryPace pace(kBegin);
  EXPECT_EQ(pace.Decide(kBegin + milliseconds(10), 1, {}, true).save, 0);
  EXPECT_EQ(pace.Decide(kBegin + milliseconds(20), 1, {}, false).save, 1);
  EXPECT_EQ(pace.Decide(kBegin + milliseconds(200), 1, {}, true).save, 0);
  // What the last one cost is known, and not yet earned.
  EXPECT_EQ(pace.Decide(kBegin + milliseconds(300), 1, milliseconds(20), false).save, 0);
  EXPECT_EQ(pace.Decide(kBegin + milliseconds(1100), 1, milliseconds(20), false).save, 1);
}

TEST(MemoryPace, DecidesSeldomWithShortStepsAndAtEveryLongOne) {
  MemoryPace pace(kBegin);
  EXPECT_GE(pace.Decide(kBegin + milliseconds(1), 1, {}, false).look, 100);
  EXPECT_EQ(pace.Decide(kBegin + seconds(10), 1, milliseconds(1), false).look, 1);
}

}  // namespace
}  // namespace lockstep::trainer
