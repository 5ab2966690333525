#include "cli/run/output/ledger_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using core::Activity;
using core::Cause;
using ::testing::ElementsAre;

// Two machines for 200 s.
core::JobStatus Status() {
  core::JobStatus status;
  core::Ledger& ledger = status.ledger.emplace();
  ledger.elapsed_milliseconds = 200'000;
  ledger.sums.activities = {{Activity::kProductive, 376'000}, {Activity::kStartUp, 12'000},
                            {Activity::kWarmStartUp, 600},    {Activity::kCheckpointLoad, 400},
                            {Activity::kRedone, 6'000},       {Activity::kWaitingForNodes, 5'000}};
  ledger.sums.lost_to = {{Cause::kNone, 13'000}, {Cause::kProcessSignal, 11'000}};
  ledger.goodput = "94.0%";
  return status;
}

TEST(LedgerText, SaysWhatTheTimeOfAJobThatNothingHappenedToWasFor) {
  EXPECT_THAT(LedgerLines(Status(), {}),
              ElementsAre("machine time 6m40s, 94.0% productive; lost: start-up 12.0 s, redone "
                          "steps 6.0 s, waiting for nodes 5.0 s, warm start-up 600 ms, checkpoint "
                          "load 400 ms"));
}

TEST(LedgerText, SaysWhatFailuresCostAndHowOftenTheyCome) {
  core::JobStatus status = Status();
  status.restarts = {.total = 4, .application = 1, .infrastructure = 1, .stopped = 2};
  const std::vector<std::string> lines = LedgerLines(status, {});
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1],
            "lost to: the first start 13.0 s, ProcessSignal 11.0 s; a failure every 1m40s (2 in "
            "3m20s)");
  status.restarts = {.total = 2, .stopped = 2};  // asked for
  EXPECT_EQ(LedgerLines(status, {}).at(1), "lost to: the first start 13.0 s, ProcessSignal 11.0 s");
}

TEST(LedgerText, NamesEveryActivity) {
  for (const auto& activity : core::kEnumNames<Activity>) {
    core::JobStatus status = Status();
    status.ledger->sums.activities = {{activity.value, 7'000}};
    const std::string line = LedgerLines(status, {}).at(0);
    const bool lost = core::IsLoss(activity.value);
    if (activity.value == Activity::kUnknown) continue;
    EXPECT_EQ(line.ends_with(" 7.0 s"), lost) << line;
    EXPECT_EQ(line.find(":  7.0 s"), std::string::npos) << line;
  }
}

TEST(LedgerText, CallsTheProductivityOfAJobWithoutStepsUnknown) {
  core::JobStatus status = Status();
  status.ledger->sums.activities = {{Activity::kUnknown, 390'000}, {Activity::kSpawn, 10'000}};
  status.ledger->goodput = core::kUnknownGoodput;
  EXPECT_THAT(LedgerLines(status, {}),
              ElementsAre("machine time 6m40s, productivity unknown: no step was reported; lost: "
                          "spawn 10.0 s"));
}

TEST(LedgerText, ShowsWhatRanBeforeTheFirstStepBesideTheProductiveShare) {
  core::JobStatus status = Status();
  status.ledger->sums.activities[Activity::kUnknown] = 30'000;
  EXPECT_THAT(LedgerLines(status, {}).at(0),
              testing::HasSubstr("94.0% productive; unknown: 30.0 s; lost: "));
}

TEST(LedgerText, CountsOnWhileAJobRunsThatReportsNothing) {
  core::JobStatus status = Status();
  core::Ledger& ledger = *status.ledger;
  ledger.elapsed_milliseconds = 1'000;
  ledger.sums.activities = {{Activity::kSpawn, 2'000}};
  ledger.goodput = "0.0%";
  ledger.through = WallTime(hours(1));
  ledger.open = {.since = WallTime(hours(1)), .generation = {1, 1}};
  status.attempts.Reset(2, 1);
  status.state = core::JobState::kRunning;
  EXPECT_TRUE(LedgerLines(status, WallTime(hours(1) + seconds(58))).empty());
  EXPECT_THAT(LedgerLines(status, WallTime(hours(1) + seconds(59))).at(0),
              testing::HasSubstr("machine time 2m00s, productivity unknown"));
  status.state = core::JobState::kRestarting;
  EXPECT_TRUE(LedgerLines(status, WallTime(hours(2))).empty());
}

TEST(LedgerText, SaysNothingOfRunsBelowAMinute) {
  core::JobStatus status = Status();
  status.restarts = {.total = 2, .application = 2};
  status.ledger->elapsed_milliseconds = 59'999;
  EXPECT_TRUE(LedgerLines(status, {}).empty());
  status.ledger->elapsed_milliseconds = 60'000;
  EXPECT_EQ(LedgerLines(status, {}).size(), 2u);
}

TEST(LedgerText, SaysNothingWhereNothingIsAccountedFor) {
  EXPECT_TRUE(LedgerLines({}, {}).empty());
  core::JobStatus status;
  status.ledger.emplace();
  EXPECT_TRUE(LedgerLines(status, {}).empty());
}

}  // namespace
}  // namespace lockstep::cli
