#include "cli/run/report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep::cli {
namespace {

constexpr Time kStart = hours(1);

core::GangStatus::GenerationStatus Generation(uint32_t n, Duration at) {
  core::GangStatus::GenerationStatus generation;
  generation.generation = {1, n};
  generation.announced = at;
  generation.spawned = at + milliseconds(3);
  return generation;
}

Report MakeReport() {
  Report report;
  report.job = "gpt";
  report.job_uid = "uid";
  report.num_machines = 2;
  report.processes_per_machine = 2;
  report.epoch = 1;
  report.started_wall = std::chrono::system_clock::time_point(seconds(1'800'000'000));
  report.started = kStart;
  report.finished = kStart + seconds(9);
  auto killed = Generation(1, milliseconds(20));
  killed.died = seconds(5);
  killed.stop_sent = seconds(5) + milliseconds(1);
  killed.all_stopped = seconds(5) + milliseconds(3);
  killed.ended = killed.all_stopped;
  killed.failure.cause = core::Cause::kProcessSignal;
  killed.failure.machine = 1;
  killed.failure.rank = 3;
  killed.failure.signal = 9;
  killed.failure.message = "rank 3 on machine 1 was killed by SIGKILL";
  killed.failure.stderr_tail = "not \xff utf-8";
  core::GangStatus status;
  status.attempt = 1;
  status.history = {killed, Generation(2, seconds(5) + milliseconds(3))};
  report.history.Learn(status, kStart);
  report.history.Finish(kStart + seconds(9), {1, 2}, {});
  report.outcome.state = core::JobState::kSucceeded;
  report.outcome.reason = "all processes exited 0";
  report.counters.process_failures = 1;
  report.ends = {{0, 1, 0, 0, kStart + seconds(9)}, {1, 1, -1, 9, kStart + seconds(9)}};
  return report;
}

TEST(ReportTest, EveryGenerationStandsThereWithStartEndAndCause) {
  auto json = nlohmann::json::parse(ToJson(MakeReport()));
  EXPECT_EQ(json["state"], "Succeeded");
  EXPECT_EQ(json["exitCode"], 0);
  EXPECT_EQ(json["started"], "2027-01-15T08:00:00.000Z");
  EXPECT_EQ(json["seconds"], 9.0);
  EXPECT_DOUBLE_EQ(json["startSeconds"], 0.023);
  ASSERT_EQ(json["generations"].size(), 2u);
  const auto& first = json["generations"][0];
  EXPECT_EQ(first["generation"], "1-1");
  EXPECT_EQ(first["start"], "2027-01-15T08:00:00.023Z");
  EXPECT_EQ(first["end"], "2027-01-15T08:00:05.003Z");
  EXPECT_EQ(first["cause"]["cause"], "ProcessSignal");
  EXPECT_EQ(first["cause"]["signal"], 9);
  EXPECT_DOUBLE_EQ(first["respawn"]["seconds"], 0.006);
  EXPECT_DOUBLE_EQ(first["respawn"]["detect"], 0.001);
  EXPECT_DOUBLE_EQ(first["respawn"]["stop"], 0.002);
  EXPECT_DOUBLE_EQ(first["respawn"]["spawn"], 0.003);
  EXPECT_TRUE(first["respawn"]["firstStep"].is_null());
  EXPECT_TRUE(json["generations"][1]["cause"].is_null());
}

TEST(ReportTest, RestartsAreCountedByCause) {
  auto json = nlohmann::json::parse(ToJson(MakeReport()));
  EXPECT_EQ(json["restarts"]["total"], 1);
  EXPECT_EQ(json["restarts"]["byCause"]["ProcessSignal"], 1);
}

TEST(ReportTest, TheLastFailureIsTheOutcomesOrTheLastGenerations) {
  Report report = MakeReport();
  EXPECT_EQ(nlohmann::json::parse(ToJson(report))["lastFailure"]["rank"], 3);
  report.outcome.failure.cause = core::Cause::kMachineLost;
  EXPECT_EQ(nlohmann::json::parse(ToJson(report))["lastFailure"]["cause"], "MachineLost");
}

TEST(ReportTest, AgentsEndsCarryTheirCodeOrSignal) {
  auto json = nlohmann::json::parse(ToJson(MakeReport()));
  EXPECT_EQ(json["agents"][0]["exitCode"], 0);
  EXPECT_EQ(json["agents"][1]["signal"], 9);
  EXPECT_FALSE(json["agents"][1].contains("exitCode"));
}

TEST(ReportTest, ARunThatNeverBeganHasAReportToo) {
  Report report;
  report.outcome.reason = "no agent";
  auto json = nlohmann::json::parse(ToJson(report));
  EXPECT_EQ(json["generations"].size(), 0u);
  EXPECT_TRUE(json["lastFailure"].is_null());
  EXPECT_TRUE(json["startSeconds"].is_null());
}

}  // namespace
}  // namespace lockstep::cli
