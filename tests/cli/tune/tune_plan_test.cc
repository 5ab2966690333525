#include "cli/tune/tune_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace lockstep::cli::tune_plan_test {
namespace {

core::TrainingJob Job() {
  core::TrainingJob job;
  job.metadata.name = "train";
  job.spec.num_machines = 2;
  job.spec.processes_per_machine = 4;
  job.spec.command = {"python", "train.py"};
  return job;
}

TEST(TunePlanTest, WhatIsNotChosenIsAsTheJobHasIt) {
  const std::vector<TuneSetting> settings = SettingsOf(Job(), {});
  ASSERT_EQ(settings.size(), 1U);
  EXPECT_EQ(ToString(settings[0]),
            "2 machines, 4 processes each, bind Node, memoryPolicy Preferred");
}

TEST(TunePlanTest, TriesEveryCombinationOnceAndFewestRanksFirst) {
  TuneChoices choices;
  choices.machines = {2, 1};
  choices.processes = {4, 1, 4};
  choices.threads = {2, 1};
  const std::vector<TuneSetting> settings = SettingsOf(Job(), choices);
  ASSERT_EQ(settings.size(), 8U);
  std::vector<int64_t> ranks;
  for (const TuneSetting& each : settings) ranks.push_back(each.ranks());
  EXPECT_EQ(ranks, (std::vector<int64_t>{1, 1, 2, 2, 4, 4, 8, 8}));
  EXPECT_EQ(ToString(settings[0]),
            "1 machine, 1 process each, 1 thread, bind Node, memoryPolicy Preferred");
}

TEST(TunePlanTest, PowersOfTwoEndWithTheLimit) {
  EXPECT_EQ(PowersOfTwo(1), (std::vector<int32_t>{1}));
  EXPECT_EQ(PowersOfTwo(6), (std::vector<int32_t>{1, 2, 4, 6}));
  EXPECT_EQ(PowersOfTwo(8), (std::vector<int32_t>{1, 2, 4, 8}));
}

TEST(TunePlanTest, EachRoundTriesEachSettingInAnOrderOfItsOwn) {
  const std::vector<size_t> order = OrderOfTrials(20, 3, 1);
  ASSERT_EQ(order.size(), 60U);
  std::vector<std::vector<size_t>> rounds;
  for (size_t round = 0; round < 3; ++round) {
    const auto begin = order.begin() + static_cast<ptrdiff_t>(round * 20);
    rounds.emplace_back(begin, begin + 20);
    std::vector<size_t> sorted = rounds.back();
    std::ranges::sort(sorted);
    for (size_t i = 0; i < 20; ++i) EXPECT_EQ(sorted[i], i);
  }
  EXPECT_NE(rounds[0], rounds[1]);
  EXPECT_EQ(order, OrderOfTrials(20, 3, 1));
  EXPECT_NE(order, OrderOfTrials(20, 3, 2));
}

TEST(TunePlanTest, ThreadsReplaceTheJobsOwn) {
  core::TrainingJob job = Job();
  job.spec.env = {{.name = "OMP_NUM_THREADS", .value = "9", .value_from = {}},
                  {.name = "SEED", .value = "1", .value_from = {}}};
  TuneSetting setting;
  setting.threads = 2;
  const core::TrainingJob tuned = WithSetting(job, setting);
  ASSERT_EQ(tuned.spec.env.size(), 2U);
  EXPECT_EQ(tuned.spec.env[1].name, "OMP_NUM_THREADS");
  EXPECT_EQ(tuned.spec.env[1].value, "2");
  setting.threads.reset();
  EXPECT_EQ(WithSetting(job, setting).spec.env, job.spec.env);
}

TEST(TunePlanTest, ATrialTouchesNothingThatTheJobKeepsAndHealsNothing) {
  core::TrainingJob job = Job();
  job.spec.checkpoint.path = "/shared/run7";
  job.spec.checkpoint.url = "s3://bucket/run7";
  job.spec.logs.path = "/shared/logs";
  job.spec.elastic = core::Elastic{};
  job.spec.spare_machines = 2;
  const core::Spec trial = TrialOf(job, {}, "/tmp/x").spec;
  EXPECT_EQ(trial.checkpoint.path, "/tmp/x/checkpoints");
  EXPECT_EQ(trial.checkpoint.url, "");
  EXPECT_EQ(trial.checkpoint.resume, "Never");
  EXPECT_EQ(trial.logs.path, "");
  EXPECT_FALSE(trial.elastic.has_value());
  EXPECT_EQ(trial.spare_machines, 0);
  EXPECT_EQ(trial.failure_policy.max_restarts, 0);
  EXPECT_EQ(trial.command, job.spec.command);
  EXPECT_EQ(TrialOf(Job(), {}, "/tmp/x").spec.checkpoint, core::Checkpoint{})
      << "a job without checkpoints gets no folder for them";
}

}  // namespace
}  // namespace lockstep::cli::tune_plan_test
