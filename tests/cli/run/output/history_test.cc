#include "cli/run/output/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using core::GangStatus;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Time kBorn = hours(2);

GangStatus::GenerationStatus Begun(uint32_t attempt, uint32_t n, Duration at) {
  GangStatus::GenerationStatus generation;
  generation.generation = {attempt, n};
  generation.announced = at;
  generation.spawned = at + milliseconds(3);
  return generation;
}

GangStatus::GenerationStatus Killed(GangStatus::GenerationStatus generation, Duration at) {
  generation.died = at;
  generation.stop_sent = at + milliseconds(1);
  generation.all_stopped = at + milliseconds(3);
  generation.ended = at + milliseconds(3);
  generation.failure.cause = core::Cause::kProcessSignal;
  generation.failure.message = "rank 3 on machine 1 was killed by SIGKILL";
  return generation;
}

GangStatus Status(uint32_t attempt, std::vector<GangStatus::GenerationStatus> history) {
  GangStatus status;
  status.attempt = attempt;
  status.history = std::move(history);
  return status;
}

TEST(HistoryTest, ARecoveryIsToldInItsParts) {
  History history;
  history.Update(Status(1, {Killed(Begun(1, 1, seconds(1)), seconds(5)),
                            Begun(1, 2, seconds(5) + milliseconds(3))}),
                 kBorn);
  Recovery recovery = history.RecoveryOf(0);
  EXPECT_EQ(recovery.detect, milliseconds(1));
  EXPECT_EQ(recovery.stop, milliseconds(2));
  EXPECT_EQ(recovery.wait, milliseconds(0));
  EXPECT_EQ(recovery.spawn, milliseconds(3));
  EXPECT_EQ(recovery.respawn, milliseconds(6));
  EXPECT_FALSE(recovery.first_step);
}

TEST(HistoryTest, ALastMessageAddsWhatNoAnswerToldOfItsMachine0) {
  History history;
  history.Update(Status(2, {Begun(2, 1, seconds(1))}), kBorn);
  history.LearnEnded(
      {Killed(Begun(1, 7, seconds(1)), seconds(2)), Killed(Begun(2, 1, seconds(1)), seconds(2)),
       Killed(Begun(2, 2, seconds(3)), seconds(4))},
      2, kBorn);
  ASSERT_EQ(history.generations().size(), 2U);
  EXPECT_EQ(history.generations()[0].died, kBorn + seconds(2));
  EXPECT_EQ(history.generations()[1].generation, (core::Generation{2, 2}));
  history.Finish(kBorn + seconds(9), {2, 2}, {});
  EXPECT_EQ(history.generations()[1].died, kBorn + seconds(4));
}

TEST(HistoryTest, AnAnswerToldTwiceChangesNothing) {
  History history;
  GangStatus status = Status(1, {Begun(1, 1, seconds(1))});
  history.Update(status, kBorn);
  history.Update(status, kBorn);
  EXPECT_EQ(history.generations().size(), 1u);
}

TEST(HistoryTest, GenerationsOfSeveralCoordinatorsStandInOrderOnOneClock) {
  History history;
  history.Update(Status(1, {Begun(1, 1, seconds(1))}), kBorn);
  core::Failure lost;
  lost.cause = core::Cause::kMachineLost;
  history.Cut(kBorn + seconds(9), lost);
  history.Update(Status(2, {Begun(2, 1, milliseconds(20))}), kBorn + seconds(9) + milliseconds(1));
  ASSERT_EQ(history.generations().size(), 2u);
  EXPECT_EQ(history.generations()[0].failure.cause, core::Cause::kMachineLost);
  EXPECT_EQ(history.RecoveryOf(0).respawn, milliseconds(24));
  EXPECT_FALSE(history.RecoveryOf(0).detect);
}

TEST(HistoryTest, TheEndOfTheJobEndsItsLastGeneration) {
  History history;
  history.Update(Status(1, {Begun(1, 1, seconds(1))}), kBorn);
  history.Finish(kBorn + seconds(7), {1, 1}, {});
  EXPECT_EQ(history.generations()[0].ended, kBorn + seconds(7));
  history.Finish(kBorn + seconds(8), {}, {});
  EXPECT_EQ(history.generations()[0].ended, kBorn + seconds(7));
}

TEST(HistoryTest, AGenerationThatNobodyCouldTellOfStandsInTheHistory) {
  History history;
  history.Finish(kBorn + seconds(7), {1, 2}, {});
  ASSERT_EQ(history.generations().size(), 1u);
  EXPECT_EQ(history.generations()[0].generation, (core::Generation{1, 2}));
}

TEST(ProgressPrinterTest, ARestartIsOneLineOnceItIsDone) {
  History history;
  ProgressPrinter printer(kBorn, 4);
  history.Update(Status(1, {Begun(1, 1, milliseconds(28))}), kBorn);
  EXPECT_THAT(printer.NewLines(history, ""),
              ElementsAre("generation 1-1: all 4 ranks running, 31 ms after the start"));
  auto ended = Killed(Begun(1, 1, milliseconds(28)), seconds(5));
  history.Update(Status(1, {ended}), kBorn);
  EXPECT_THAT(printer.NewLines(history, ""), IsEmpty());
  auto announced = Begun(1, 2, seconds(5) + milliseconds(3));
  announced.spawned.reset();
  history.Update(Status(1, {ended, announced}), kBorn);
  EXPECT_THAT(printer.NewLines(history, ""), IsEmpty());
  history.Update(Status(1, {ended, Begun(1, 2, seconds(5) + milliseconds(3))}), kBorn);
  EXPECT_THAT(
      printer.NewLines(history, ""),
      ElementsAre("generation 1-1 ended: rank 3 on machine 1 was killed by SIGKILL; all 4 ranks "
                  "running again in 6.0 ms (detect 1.0 ms, stop 2.0 ms, spawn 3.0 ms) as "
                  "generation 1-2"));
  EXPECT_THAT(printer.NewLines(history, ""), IsEmpty());
}

TEST(ProgressPrinterTest, AnEndThatHasToWaitIsToldAtOnceWithTheReason) {
  History history;
  ProgressPrinter printer(kBorn, 4);
  auto first = Killed(Begun(1, 1, milliseconds(28)), seconds(5));
  history.Update(Status(1, {first}), kBorn);
  EXPECT_THAT(printer.NewLines(history, "waiting 5 s"),
              ElementsAre(HasSubstr("generation 1-1: all 4 ranks running"),
                          "generation 1-1 ended: rank 3 on machine 1 was killed by SIGKILL; "
                          "waiting 5 s"));
  history.Update(Status(1, {first, Begun(1, 2, seconds(10))}), kBorn);
  EXPECT_THAT(printer.NewLines(history, ""),
              ElementsAre(HasSubstr("generation 1-2: all 4 ranks running again after 5.0 s")));
}

TEST(ProgressPrinterTest, AGenerationThatNeverRanIsToldByItsEnd) {
  History history;
  ProgressPrinter printer(kBorn, 4);
  auto first = Killed(Begun(1, 1, milliseconds(28)), seconds(5));
  auto second = Killed(Begun(1, 2, seconds(5)), seconds(6));
  second.spawned.reset();
  history.Update(Status(1, {first, second}), kBorn);
  EXPECT_THAT(printer.NewLines(history, "waiting"),
              ElementsAre(HasSubstr("generation 1-1: "), HasSubstr("generation 1-1 ended"),
                          HasSubstr("generation 1-2 ended")));
}

TEST(WaitingForTest, OnlyAPhaseThatLastsIsAReason) {
  GangStatus status;
  status.reason = "a restart";
  status.phase = core::CoordinatorPhase::kRunning;
  EXPECT_EQ(WaitingFor(status), "");
  status.phase = core::CoordinatorPhase::kBackoff;
  EXPECT_EQ(WaitingFor(status), "a restart");
}

TEST(BriefTest, DurationsReadAsPeopleSayThem) {
  EXPECT_EQ(Brief(microseconds(1234)), "1.2 ms");
  EXPECT_EQ(Brief(milliseconds(31)), "31 ms");
  EXPECT_EQ(Brief(milliseconds(1300)), "1.3 s");
  EXPECT_EQ(Brief(seconds(125)), "2m05s");
  EXPECT_EQ(Brief(minutes(125)), "2h05m");
}

}  // namespace
}  // namespace lockstep::cli
