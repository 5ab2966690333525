#include "worker/agent/metrics/gang_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/worker/agent/metrics/measured_gang.h"
#include "tests/worker/agent/metrics/page.h"

namespace lockstep::agent {
namespace {

using History = std::vector<core::GenerationRecord>;

core::GenerationRecord Announced(uint32_t n, Time at) {
  core::GenerationRecord record;
  record.generation = {2, n};
  record.announced = at;
  return record;
}

void Spawned(core::GenerationRecord* record, Duration after) {
  record->spawned = *record->announced + after;
}

void Failed(core::GenerationRecord* record, core::Cause cause, Time died) {
  record->failure.cause = cause;
  record->died = died;
  record->stop_sent = died + milliseconds(2);
  record->all_stopped = *record->stop_sent + milliseconds(4);
  record->ended = record->all_stopped;
}

core::CommitReply Answer(bool granted) {
  core::CommitReply reply;
  reply.granted = granted;
  return reply;
}

core::Pong PongTo(Time ping_sent) {
  core::Pong pong;
  pong.ping_sent = ping_sent;
  return pong;
}

class GangMetricsTest : public testing::Test {
 protected:
  double At(const std::string& sample) const { return PageOf(gang_).At(sample); }
  double Restarts(const std::string& cause) const {
    return At("lockstep_restarts_total{cause=\"" + cause + "\"}");
  }
  double Count(const std::string& phase) const {
    return At("lockstep_recovery_seconds_count{phase=\"" + phase + "\"}");
  }
  double Sum(const std::string& phase) const {
    return At("lockstep_recovery_seconds_sum{phase=\"" + phase + "\"}");
  }

  Time now_ = seconds(100);
  core::Coordinator coordinator_{core::CoordinatorConfig{}, now_};
  GangMetrics gang_{&coordinator_, [this] { return now_; }};
};

TEST_F(GangMetricsTest, CountsCommitsAndShowsTheAgeOfTheLastOneOnceThereIsOne) {
  gang_.OnHeard(core::CommitRequest{}, false);
  gang_.OnSaid(Answer(false));
  EXPECT_TRUE(std::isnan(At("lockstep_checkpoint_age_seconds")));
  gang_.OnHeard(core::CommitRequest{}, true);
  gang_.OnSaid(Answer(true));
  now_ += seconds(90);
  EXPECT_EQ(At(R"(lockstep_commits_total{result="granted"})"), 1);
  EXPECT_EQ(At(R"(lockstep_commits_total{result="refused"})"), 1);
  EXPECT_EQ(At("lockstep_checkpoint_age_seconds"), 90);
}

TEST_F(GangMetricsTest, OnlyAnswersThatCameOverTheWireTellARoundTrip) {
  gang_.OnHeard(PongTo(now_ - milliseconds(2)), false);
  gang_.OnHeard(PongTo(now_ - milliseconds(2)), true);
  gang_.OnHeard(PongTo(now_ + milliseconds(2)), false);
  EXPECT_EQ(At("lockstep_heartbeat_round_trip_seconds_count"), 1);
  EXPECT_EQ(At("lockstep_heartbeat_round_trip_seconds_sum"), 0.002);
}

TEST_F(GangMetricsTest, WithoutPreflightThereIsNothingOfIt) {
  EXPECT_TRUE(std::isnan(At(R"(lockstep_preflight_slow_machines{result="replaced"})")));
}

TEST_F(GangMetricsTest, ShowsTheBudgetsOfThePolicy) {
  EXPECT_EQ(At(R"(lockstep_restart_budget_limit{budget="application"})"), 3);
  EXPECT_EQ(At(R"(lockstep_restart_budget_limit{budget="infrastructure"})"), 10);
}

TEST(GangMetricsPreflightTest, ShowsHowManyMachinesWereSlow) {
  const Time now = seconds(100);
  core::Coordinator coordinator(ToBeMeasured(3), now);
  const GangMetrics gang(&coordinator, [&] { return now; });
  const auto slow = [&](const std::string& result) {
    return PageOf(gang).At("lockstep_preflight_slow_machines{result=\"" + result + "\"}");
  };
  EXPECT_EQ(slow("replaced"), 0);
  Measure(&coordinator, now, {{.products = 40}, {.products = 10}, {.products = 50}});
  EXPECT_EQ(slow("replaced"), 1);
  EXPECT_EQ(slow("kept"), 0);
}

TEST_F(GangMetricsTest, ARestartAndThePartsOfItsRecoveryCountOnce) {
  History history = {Announced(1, seconds(1)), Announced(2, seconds(101))};
  Spawned(&history[0], milliseconds(5));
  Failed(&history[0], core::Cause::kProcessSignal, seconds(100));
  Spawned(&history[1], milliseconds(8));
  gang_.OnHistory(history);
  gang_.OnHistory(history);
  EXPECT_EQ(Restarts("ProcessSignal"), 1);
  EXPECT_EQ(Restarts("ProcessExit"), 0);
  EXPECT_DOUBLE_EQ(Sum("detect"), 0.002);
  EXPECT_DOUBLE_EQ(Sum("stop"), 0.004);
  EXPECT_DOUBLE_EQ(Sum("spawn"), 0.008);
  EXPECT_EQ(Count("detect"), 1);
  EXPECT_EQ(Count("first_step"), 0);

  history[1].first_step = *history[1].spawned + seconds(3);
  gang_.OnHistory(history);
  gang_.OnHistory(history);
  EXPECT_EQ(Count("first_step"), 1);
  EXPECT_DOUBLE_EQ(Sum("first_step"), 3);
  EXPECT_EQ(Count("spawn"), 1);
}

TEST_F(GangMetricsTest, TheLedgerHasAllTimeOnceByWhatItWasFor) {
  const auto spent = [this](const std::string& activity) {
    return At("lockstep_machine_time_seconds{activity=\"" + activity + "\"}");
  };
  History history = {Announced(1, seconds(101)), Announced(2, seconds(111))};
  Spawned(&history[0], seconds(1));
  history[0].first_step = seconds(104);
  Failed(&history[0], core::Cause::kProcessSignal, seconds(110));
  Spawned(&history[1], milliseconds(500));
  history[1].first_step = seconds(113);
  history[1].warm = true;
  history[1].loaded = milliseconds(250);
  now_ = seconds(115);
  gang_.OnHistory(history);
  gang_.OnHistory(history);
  EXPECT_EQ(spent("WaitingForMachines"), 1 + 0.994);
  EXPECT_EQ(spent("Spawn"), 1.5);
  EXPECT_EQ(spent("StartUp"), 2);
  EXPECT_EQ(spent("WarmStartUp"), 1.25);
  EXPECT_EQ(spent("CheckpointLoad"), 0.25);
  EXPECT_DOUBLE_EQ(spent("Productive"), 6.002 + 2);
  EXPECT_EQ(spent("Stop"), 0.004);
  EXPECT_EQ(spent("Hang"), 0);
}

TEST_F(GangMetricsTest, TheFirstGenerationAndTheLastFailureAreNoRestart) {
  History history = {Announced(1, seconds(1))};
  Spawned(&history[0], milliseconds(5));
  Failed(&history[0], core::Cause::kProcessExit, seconds(9));
  gang_.OnHistory(history);
  EXPECT_EQ(Restarts("ProcessExit"), 0);
  EXPECT_EQ(Count("spawn"), 0);
}

TEST_F(GangMetricsTest, AStopOnRequestIsARestartButNoRecovery) {
  History history = {Announced(1, seconds(1)), Announced(2, seconds(900))};
  Failed(&history[0], core::Cause::kStopRequested, seconds(9));
  Spawned(&history[1], milliseconds(5));
  gang_.OnHistory(history);
  EXPECT_EQ(Restarts("StopRequested"), 1);
  EXPECT_EQ(Count("stop"), 0);
}

TEST_F(GangMetricsTest, AFailureThatSeemsToLieAfterItsStopTookNoTime) {
  History history = {Announced(1, seconds(1)), Announced(2, seconds(101))};
  Failed(&history[0], core::Cause::kProcessExit, seconds(100));
  history[0].died = *history[0].died + seconds(5);
  gang_.OnHistory(history);
  EXPECT_EQ(Count("detect"), 1);
  EXPECT_EQ(Sum("detect"), 0);
}

TEST_F(GangMetricsTest, RestartsAreCountedThoughTheHistoryForgetsThem) {
  History history;
  for (uint32_t n = 1; n <= 200; ++n) {
    const Time now = seconds(n * 10);
    if (!history.empty()) Failed(&history.back(), core::Cause::kProcessExit, now - seconds(1));
    if (history.size() == core::kMaxHistory) history.erase(history.begin());
    history.push_back(Announced(n, now));
    Spawned(&history.back(), milliseconds(n));
    gang_.OnHistory(history);
    ASSERT_EQ(Restarts("ProcessExit"), n - 1);
    ASSERT_EQ(Count("stop"), n - 1);
  }
}

}  // namespace
}  // namespace lockstep::agent
