#include "operator/controller/jobs/job_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::control {
namespace {

using testing::HasSubstr;

kube::JobView JobOf(const std::string& name_space, const std::string& name, size_t kib,
                    bool begun = false) {
  kube::JobView job;
  job.meta.name_space = name_space;
  job.meta.name = name;
  job.begun = begun;
  job.json = R"({"spec":{"x":")" + std::string(kib << 10, 'x') + R"("},"status":{"epoch":3}})";
  return job;
}

// How many jobs of 1 MiB each are kept.
int Fill(JobBudget& budget, const std::string& name_space) {
  for (int kept = 0; kept < 1000; ++kept) {
    kube::JobView job = JobOf(name_space, "job" + std::to_string(kept), 1024);
    budget.Admit(job);
    if (!job.refusal.empty()) return kept;
  }
  return 1000;
}

TEST(JobBudget, OneNamespaceGetsHalfAndLeavesRoomForTheNext) {
  JobBudget budget;
  EXPECT_NEAR(Fill(budget, "a"), 31, 1);
  EXPECT_NEAR(Fill(budget, "b"), 16, 1);
  EXPECT_NEAR(Fill(budget, "c"), 8, 1);
}

TEST(JobBudget, OfARefusedJobTheStatusStaysWithTheReason) {
  JobBudget budget;
  Fill(budget, "a");
  kube::JobView job = JobOf("a", "late", 1024);
  budget.Admit(job);
  EXPECT_THAT(job.refusal, HasSubstr("the large TrainingJobs of namespace a take 3"));
  EXPECT_EQ(job.json, R"({"status": {"epoch":3}})");
}

TEST(JobBudget, OrdinaryJobsAndThoseThatHaveBegunAreKeptAnyway) {
  JobBudget budget;
  Fill(budget, "a");
  for (kube::JobView job : {JobOf("a", "small", 16), JobOf("a", "runs", 900, true)}) {
    budget.Admit(job);
    EXPECT_EQ(job.refusal, "") << job.meta.name;
  }
}

TEST(JobBudget, ManySmallValuesCostMoreThanTheirText) {
  kube::JobView job;
  for (int i = 0; i < 49'000; ++i) job.json += R"({"key":"k"},)";
  EXPECT_GT(JobBudget::CostOf(job), 10'000'000U);
}

TEST(JobBudget, AJobThatIsAdmittedAgainIsCountedOnce) {
  JobBudget budget;
  for (int i = 0; i < 1000; ++i) {
    kube::JobView job = JobOf("a", "same", 1024);
    budget.Admit(job);
    ASSERT_EQ(job.refusal, "") << i;
  }
}

TEST(JobBudget, WhatIsReleasedMakesRoom) {
  JobBudget budget;
  const int kept = Fill(budget, "a");
  budget.Release({"a", "job0"});
  budget.Release({"a", "unknown"});
  kube::JobView job = JobOf("a", "next", 1000);
  budget.Admit(job);
  EXPECT_EQ(job.refusal, "");
  budget.Clear("b");
  kube::JobView later = JobOf("a", "later", 1100);
  budget.Admit(later);
  EXPECT_NE(later.refusal, "");
  budget.Clear("a");
  EXPECT_EQ(Fill(budget, "b"), kept);
}

}  // namespace
}  // namespace lockstep::control
