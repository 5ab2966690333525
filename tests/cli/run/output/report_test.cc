#include "cli/run/output/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::cli::report_test {
namespace {

constexpr Time kStart = hours(1);

core::GangStatus::GenerationStatus Generation(uint32_t n, Duration at) {
  core::GangStatus::GenerationStatus generation;
  generation.generation = {1, n};
  generation.announced = at;
  generation.spawned = at + milliseconds(3);
  return generation;
}

History MakeHistory() {
  auto killed = Generation(1, milliseconds(20));
  killed.died = seconds(5);
  killed.stop_sent = seconds(5) + milliseconds(1);
  killed.all_stopped = seconds(5) + milliseconds(3);
  killed.ended = killed.all_stopped;
  killed.failure.cause = core::Cause::kProcessSignal;
  killed.failure.machine = 1;
  killed.failure.rank = 3;
  killed.failure.signal = 9;
  core::GangStatus status;
  status.attempt = 1;
  status.history = {killed, Generation(2, seconds(5) + milliseconds(3))};
  History history;
  history.Update(status, kStart);
  history.Finish(kStart + seconds(9), {1, 2}, {});
  return history;
}

nlohmann::json Written(const Report& report) { return nlohmann::json::parse(ToJson(report)); }

TEST(ReportTest, IsTheJobsStatusWithWhatOnlyThisComputerKnowsBesideIt) {
  Report report;
  report.job = "gpt";
  report.job_uid = "uid";
  report.exit_code = 3;
  report.took = seconds(9);
  report.status.state = core::JobState::kFailed;
  report.status.restarts.total = 2;
  const WallTime start{seconds(1'800'000'000)};
  report.status.timings.created = start;
  core::Ledger& ledger = report.status.ledger.emplace();
  ledger.sums.activities = {{core::Activity::kWarmStartUp, 70}, {core::Activity::kProductive, 630}};
  ledger.sums.lost_to = {{core::Cause::kProcessExit, 70}};
  ledger.goodput = "90.0%";
  report.agents = {{0, 1, start + seconds(9), 0, 0}, {1, 2, start + seconds(9), {}, 9}};
  const auto json = Written(report);
  EXPECT_EQ(json["job"], "gpt");
  EXPECT_EQ(json["jobUID"], "uid");
  EXPECT_EQ(json["exitCode"], 3);
  EXPECT_EQ(json["seconds"], 9.0);
  EXPECT_EQ(json["ledger"]["machineMilliseconds"]["WarmStartUp"], 70);
  EXPECT_EQ(json["ledger"]["lostTo"]["ProcessExit"], 70);
  EXPECT_EQ(json["ledger"]["goodput"], "90.0%");
  EXPECT_EQ(json["agents"][0]["ended"], "2027-01-15T08:00:09Z");
  EXPECT_EQ(json["agents"][0]["exitCode"], 0);
  EXPECT_EQ(json["agents"][1]["signal"], 9);
  EXPECT_FALSE(json["agents"][1].contains("exitCode"));
  const Result<core::JobStatus> status = core::ParseJobStatus(ToJson(report));
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(*status, report.status);
}

TEST(ReportTest, EveryGenerationStandsThereWithItsTimesSinceTheStartAndItsRespawn) {
  Report report;
  report.generations = ReportOf(MakeHistory(), kStart - milliseconds(500));
  const auto generations = Written(report)["generations"];
  ASSERT_EQ(generations.size(), 2u);
  const auto& first = generations[0];
  EXPECT_EQ(first["generation"], "1-1");
  EXPECT_DOUBLE_EQ(first["spawned"], 0.523);
  EXPECT_DOUBLE_EQ(first["ended"], 5.503);
  EXPECT_TRUE(first["firstStep"].is_null());
  EXPECT_EQ(first["failure"]["cause"], "ProcessSignal");
  EXPECT_EQ(first["failure"]["signal"], 9);
  EXPECT_DOUBLE_EQ(first["respawn"]["seconds"], 0.006);
  EXPECT_DOUBLE_EQ(first["respawn"]["detect"], 0.001);
  EXPECT_DOUBLE_EQ(first["respawn"]["stop"], 0.002);
  EXPECT_DOUBLE_EQ(first["respawn"]["spawn"], 0.003);
  EXPECT_TRUE(first["respawn"]["firstStep"].is_null());
  EXPECT_EQ(generations[1]["failure"]["cause"], "None");
  EXPECT_TRUE(generations[1]["respawn"].is_null());
}

TEST(ReportTest, BytesThatAreNoTextStandInItAsText) {
  Report report;
  report.status.reason = "not \xff utf-8";
  EXPECT_EQ(Written(report)["reason"], "not \xef\xbf\xbd utf-8");
}

TEST(ReportTest, ARunThatNeverBeganHasAReportToo) {
  const auto json = Written({});
  EXPECT_EQ(json["generations"].size(), 0u);
  EXPECT_EQ(json["agents"].size(), 0u);
  EXPECT_EQ(json["state"], "Pending");
}

}  // namespace
}  // namespace lockstep::cli::report_test
