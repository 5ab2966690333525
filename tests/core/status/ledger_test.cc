#include "core/status/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::Pair;

WallTime At(double second) {
  return WallTime(hours(24)) + milliseconds(static_cast<int64_t>(second * 1000));
}

// Announced one second after it could be, spawned in another, with its first step after two more.
GenerationSpan Begun(uint32_t n, double announced, int64_t first_step) {
  return {.generation = {1, n},
          .announced = At(announced),
          .spawned = At(announced + 1),
          .first_step = At(announced + 3),
          .resumed_at = first_step,
          .last_step = first_step};
}

// It halts, is told to stop a second later, and is dead after another.
GenerationSpan Over(GenerationSpan span, double halted, int64_t last_step, Cause cause) {
  span.halted = At(halted);
  span.stop_sent = At(halted + 1);
  span.ended = At(halted + 2);
  span.over = true;
  span.cause = cause;
  span.last_step = last_step;
  return span;
}

Ledger After(double now, const std::vector<GenerationSpan>& generations, int machines = 1) {
  Ledger ledger;
  Account(ledger, generations, {.now = At(now), .machines = machines, .begun = At(0)});
  return ledger;
}

TEST(Ledger, DividesTheFirstStartIntoItsParts) {
  GenerationSpan span = Begun(1, 2, 1);
  const Ledger ledger = After(15, {span}, 2);
  EXPECT_THAT(
      ledger.sums.activities,
      ElementsAre(Pair(Activity::kProductive, 20'000), Pair(Activity::kWaitingForMachines, 4'000),
                  Pair(Activity::kSpawn, 2'000), Pair(Activity::kStartUp, 4'000)));
  EXPECT_THAT(ledger.sums.lost_to, ElementsAre(Pair(Cause::kNone, 10'000)));
  EXPECT_EQ(ledger.goodput, "66.7%");
}

TEST(Ledger, TellsWarmStartsAndTheCheckpointsLoadingFromOtherStarts) {
  const GenerationSpan first = Over(Begun(1, 0, 1), 23, 21, Cause::kProcessSignal);
  GenerationSpan second = Begun(2, 26, 22);
  second.warm = true;
  second.loaded = milliseconds(700);
  Ledger ledger = After(49, {first, second});
  EXPECT_EQ(ledger.sums.activities[Activity::kStartUp], 2'000);
  EXPECT_EQ(ledger.sums.activities[Activity::kWarmStartUp], 1'300);
  EXPECT_EQ(ledger.sums.activities[Activity::kCheckpointLoad], 700);
  EXPECT_EQ(ledger.sums.total(), 49'000);
  second.loaded = hours(1);  // a program may say anything
  ledger = After(49, {first, second});
  EXPECT_FALSE(ledger.sums.activities.contains(Activity::kWarmStartUp));
  EXPECT_EQ(ledger.sums.activities[Activity::kCheckpointLoad], 2'000);
  EXPECT_EQ(ledger.sums.total(), 49'000);
}

TEST(Ledger, ChargesWhatAFailureCostsToItsCause) {
  const GenerationSpan first = Over(Begun(1, 0, 1), 23, 21, Cause::kProcessSignal);
  GenerationSpan second = Begun(2, 26, 12);
  second.last_step = 32;
  const Ledger ledger = After(49, {first, second});
  // 20 s of steps 1 to 21; of the second's 20 s, steps 13 to 21 of 13 to 32 were done before.
  EXPECT_THAT(ledger.sums.activities,
              ElementsAre(Pair(Activity::kProductive, 31'000),
                          Pair(Activity::kWaitingForMachines, 1'000), Pair(Activity::kSpawn, 2'000),
                          Pair(Activity::kStartUp, 4'000), Pair(Activity::kRedone, 9'000),
                          Pair(Activity::kDetect, 1'000), Pair(Activity::kStop, 1'000)));
  EXPECT_THAT(ledger.sums.lost_to,
              ElementsAre(Pair(Cause::kNone, 3'000), Pair(Cause::kProcessSignal, 15'000)));
}

TEST(Ledger, TakesBackWhatTurnsOutToHaveBeenAHang) {
  Ledger ledger = After(100, {Begun(1, 0, 1)});
  EXPECT_EQ(ledger.sums.activities[Activity::kProductive], 97'000);
  GenerationSpan hung = Over(Begun(1, 0, 1), 40, 30, Cause::kHang);
  hung.stop_sent = At(101);
  hung.ended = At(102);
  Account(ledger, {hung}, {.now = At(102), .machines = 1, .begun = At(0)});
  EXPECT_EQ(ledger.sums.activities[Activity::kProductive], 37'000);
  EXPECT_EQ(ledger.sums.activities[Activity::kHang], 61'000);
  EXPECT_EQ(ledger.sums.lost_to[Cause::kHang], 62'000);
}

TEST(Ledger, TakesBackWhatTurnsOutToHaveBeenAStart) {
  GenerationSpan silent = Begun(1, 0, 0);
  silent.first_step.reset();
  Ledger ledger = After(8, {silent});
  EXPECT_EQ(ledger.sums.activities[Activity::kUnknown], 7'000);  // it may never report a step
  EXPECT_EQ(ledger.goodput, kUnknownGoodput);
  GenerationSpan told = Begun(1, 0, 1);
  told.first_step = At(9);
  Account(ledger, {told}, {.now = At(10), .machines = 1, .begun = At(0)});
  EXPECT_EQ(ledger.sums.activities[Activity::kStartUp], 8'000);
  EXPECT_EQ(ledger.sums.activities[Activity::kProductive], 1'000);
  EXPECT_FALSE(ledger.sums.activities.contains(Activity::kUnknown));
  EXPECT_EQ(ledger.goodput, "10.0%");
}

TEST(Ledger, DoesNotKnowWhatAJobDidThatReportedNoStep) {
  GenerationSpan first = Over(Begun(1, 0, 0), 31, 0, Cause::kProcessExit);
  first.first_step.reset();
  GenerationSpan second = Begun(2, 34, 0);
  second.first_step.reset();
  const Ledger ledger = After(65, {first, second});
  EXPECT_EQ(ledger.sums.of(Activity::kUnknown), 30'000 + 30'000);
  EXPECT_EQ(ledger.sums.of(Activity::kProductive), 0);
  EXPECT_EQ(ledger.goodput, kUnknownGoodput);
  EXPECT_EQ(ledger.sums.lost(), 5'000);
  EXPECT_THAT(ledger.sums.lost_to,
              ElementsAre(Pair(Cause::kNone, 1'000), Pair(Cause::kProcessExit, 4'000)));
}

TEST(Ledger, CountsRunsBeforeTheFirstStepOfAllAsNotProductive) {
  GenerationSpan first =
      Over(Begun(1, 0, 0), 47, 0, Cause::kProcessExit);  // it crashed in its start
  first.first_step.reset();
  const Ledger ledger = After(100, {first, Begun(2, 50, 1)});
  EXPECT_EQ(ledger.sums.of(Activity::kUnknown), 46'000);
  EXPECT_EQ(ledger.sums.of(Activity::kProductive), 47'000);
  EXPECT_EQ(ledger.goodput, "47.0%");
}

TEST(Ledger, TakesARunForProductiveIfOnlyItsLastStepIsKnown) {
  GenerationSpan span = Begun(1, 0, 0);
  span.first_step.reset();
  span.last_step = 90;  // read from its output
  const Ledger ledger = After(101, {span});
  EXPECT_EQ(ledger.sums.of(Activity::kProductive), 100'000);
  EXPECT_EQ(ledger.goodput, "99.0%");
}

TEST(Ledger, TellsWaitingForNodesFromWaitingForMachines) {
  Ledger ledger;
  Account(ledger, {}, {.now = At(30), .machines = 4, .begun = At(0), .waits_for_nodes = true});
  Account(ledger, {}, {.now = At(40), .machines = 4, .begun = At(0)});
  EXPECT_THAT(ledger.sums.activities, ElementsAre(Pair(Activity::kWaitingForNodes, 120'000),
                                                  Pair(Activity::kWaitingForMachines, 40'000)));
  EXPECT_EQ(ledger.goodput, "0.0%");
}

TEST(Ledger, LosesNothingToASuspension) {
  Ledger ledger = After(13, {Over(Begun(1, 0, 1), 11, 9, Cause::kStopRequested)});
  Pause(ledger);
  GenerationSpan again = Begun(2, 1001, 9);
  again.last_step = 29;
  Account(ledger, {again}, {.now = At(1024), .machines = 1, .begun = At(1000)});
  EXPECT_EQ(ledger.elapsed_milliseconds, 13'000 + 24'000);
  EXPECT_EQ(ledger.sums.total(), 37'000);
  EXPECT_EQ(ledger.sums.lost_to[Cause::kStopRequested], 2'000 + 4'000);
  EXPECT_THAT(ledger.sums.activities[Activity::kRedone], 0);
}

TEST(Ledger, KeepsWhatALostCoordinatorHadTold) {
  Ledger ledger = After(23, {Begun(1, 0, 1)});
  Account(ledger, {}, {.now = At(30), .machines = 1, .begun = At(0)});  // nobody answers
  EXPECT_EQ(ledger.through, At(23));
  AccountLoss(ledger, Cause::kMachineLost, {.now = At(38), .machines = 1, .begun = At(0)});
  GenerationSpan next = Begun(1, 43, 1);
  next.generation = {2, 1};
  Account(ledger, {next}, {.now = At(50), .machines = 1, .begun = At(0)});
  EXPECT_EQ(ledger.sums.activities[Activity::kDetect], 15'000);
  EXPECT_EQ(ledger.sums.activities[Activity::kWaitingForMachines], 5'000);
  EXPECT_EQ(ledger.sums.lost_to[Cause::kMachineLost], 15'000 + 5'000 + 1'000 + 2'000 + 4'000);
  EXPECT_EQ(ledger.sums.total(), 50'000);
}

TEST(Ledger, DoesNotCountAGenerationTwice) {
  const std::vector<GenerationSpan> all = {Over(Begun(1, 0, 1), 23, 21, Cause::kProcessExit),
                                           Begun(2, 26, 12)};
  Ledger often;
  for (int half = 2; half <= 98; ++half) {
    const double now = half / 2.0;
    std::vector<GenerationSpan> seen;
    for (GenerationSpan span : all) {
      if (*span.announced > At(now)) continue;
      if (span.ended && *span.ended > At(now)) span = Begun(span.generation.n, 0, 1);
      seen.push_back(span);
    }
    Account(often, seen, {.now = At(now), .machines = 3, .begun = At(0)});
    Account(often, seen, {.now = At(now), .machines = 3, .begun = At(0)});
  }
  EXPECT_EQ(often.sums, After(49, all, 3).sums);
}

TEST(Ledger, PassesOverAClockThatWasSetBack) {
  Ledger ledger = After(20, {Begun(1, 0, 1)});
  const LedgerSums before = ledger.sums;
  Account(ledger, {Begun(1, 0, 1)}, {.now = At(10), .machines = 1, .begun = At(0)});
  EXPECT_EQ(ledger.sums, before);
  Account(ledger, {Begun(1, 0, 1)}, {.now = At(25), .machines = 1, .begun = At(0)});
  EXPECT_EQ(ledger.sums.total(), 25'000);
}

// Whatever is told, in whatever disorder: nothing is lost, nothing is counted twice, and nothing is
// negative.
TEST(Ledger, AccountsForEveryMillisecondWhateverIsTold) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](int most) {
      return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    const int machines = 1 + below(4);
    Ledger ledger;
    std::vector<GenerationSpan> told;
    double now = 1;
    double begun = 0;
    int64_t held = 0;
    WallTime through = At(0);
    for (int event = 0; event < 30; ++event) {
      now += below(10'000) / 999.0 - 1;
      const auto about = [&]() -> std::optional<WallTime> {
        if (below(4) == 0) return std::nullopt;
        return At(now + below(20'000) / 1000.0 - 15);
      };
      if (told.empty() || below(3) == 0) {
        GenerationSpan span;
        span.generation = {1 + static_cast<uint32_t>(event) / 9, static_cast<uint32_t>(event) + 1};
        told.push_back(span);
        if (told.size() > 3) told.erase(told.begin());
      }
      GenerationSpan& last = told.back();
      for (auto* time : {&last.announced, &last.spawned, &last.first_step, &last.halted,
                         &last.stop_sent, &last.ended}) {
        if (!*time) *time = about();
      }
      last.over = below(3) == 0;
      last.cause = static_cast<Cause>(below(kCauseCount));
      last.resumed_at = below(50);
      last.last_step = below(80);
      const LedgerMoment moment{.now = At(now),
                                .machines = machines,
                                .begun = At(begun),
                                .waits_for_nodes = below(4) == 0};
      const bool paused = ledger.since && !ledger.open;
      const int kind = below(10);
      if (kind == 0) {
        AccountLoss(ledger, Cause::kMachineLost, moment);
        told.clear();
      } else {
        Account(ledger, told, moment);
      }
      if (paused) through = std::max(through, std::min(At(begun), *ledger.through));
      held += (*ledger.through - through) / milliseconds(1);
      through = *ledger.through;
      if (kind == 1) {
        Pause(ledger);
        begun = now + below(5);
      }
      ASSERT_EQ(ledger.elapsed_milliseconds, held) << seed;
      ASSERT_EQ(ledger.sums.total(), held * machines) << seed;
      int64_t by_cause = 0;
      for (const auto& [cause, time] : ledger.sums.lost_to) {
        ASSERT_GT(time, 0) << seed;
        by_cause += time;
      }
      for (const auto& [activity, time] : ledger.sums.activities) ASSERT_GT(time, 0) << seed;
      ASSERT_EQ(ledger.sums.lost(), by_cause) << seed;
    }
  }
}

}  // namespace
}  // namespace lockstep::core
