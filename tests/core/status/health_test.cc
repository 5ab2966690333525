#include "core/status/health.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::core::health_test {
namespace {

bool Holds(const JobStatus& status, const std::string& type) {
  const Condition* found = FindCondition(status.conditions, type);
  return found != nullptr && found->status == Condition::Value::kTrue;
}

// The rules of kstatus for a kind that it does not know (cli-utils, pkg/kstatus/status): the first
// of these conditions that says something decides. tests/system/api-server/jobs/test_health.py asks
// kstatus itself.
std::string KstatusOf(const JobStatus& status, int64_t generation) {
  if (status.observed_generation != generation) return "InProgress";
  for (const Condition& condition : status.conditions) {
    const bool holds = condition.status == Condition::Value::kTrue;
    if (condition.type == "Reconciling" && holds) return "InProgress";
    if (condition.type == "Stalled" && holds) return "Failed";
  }
  const Condition* ready = FindCondition(status.conditions, "Ready");
  return ready == nullptr || ready->status == Condition::Value::kTrue ? "Current" : "InProgress";
}

TEST(Health, OfEveryStateIsWhatKstatusReads) {
  const struct {
    JobState state;
    bool conflict;
    const char* ready;
    const char* reconciling;
    const char* stalled;
    const char* kstatus;
  } cases[] = {
      {JobState::kPending, false, "no", "yes", "no", "InProgress"},
      {JobState::kQueued, false, "no", "yes", "no", "InProgress"},
      {JobState::kStarting, false, "no", "yes", "no", "InProgress"},
      {JobState::kRunning, false, "yes", "no", "no", "Current"},
      {JobState::kRestarting, false, "no", "yes", "no", "InProgress"},
      {JobState::kStopping, false, "no", "yes", "no", "InProgress"},
      {JobState::kSuspended, false, "yes", "no", "no", "Current"},
      {JobState::kSucceeded, false, "yes", "no", "no", "Current"},
      {JobState::kFailed, false, "no", "no", "yes", "Failed"},
      {JobState::kPending, true, "no", "no", "yes", "Failed"},
      {JobState::kRunning, true, "yes", "no", "no", "Current"},
  };
  JobStatus status;  // one, for conditions of the state before must not stay
  status.observed_generation = 2;
  for (const auto& each : cases) {
    status.state = each.state;
    SetCondition(status.conditions,
                 {.type = "NameConflict",
                  .status = each.conflict ? Condition::Value::kTrue : Condition::Value::kFalse},
                 WallTime{});
    SetHealth(status, "", WallTime{});
    const auto word = [&](const char* type) { return Holds(status, type) ? "yes" : "no"; };
    const char* const name = ToString(each.state);
    EXPECT_STREQ(word("Ready"), each.ready) << name;
    EXPECT_STREQ(word("Reconciling"), each.reconciling) << name;
    EXPECT_STREQ(word("Stalled"), each.stalled) << name;
    EXPECT_EQ(KstatusOf(status, 2), each.kstatus) << name;
    EXPECT_EQ(KstatusOf(status, 3), "InProgress") << name << ", and the spec has changed";
  }
}

TEST(Health, OfAJobThatNobodyHasSeenIsInProgress) {
  const Result<JobStatus> unseen = ParseJobStatus(R"({"observedGeneration": -1})");
  ASSERT_TRUE(unseen.ok());
  EXPECT_EQ(KstatusOf(*unseen, 1), "InProgress");
}

TEST(Health, SaysWhyInTheWordsOfTheStatus) {
  JobStatus status;
  status.reason = "its image cannot be pulled";
  SetHealth(status, "ImageUnavailable", WallTime{});
  for (const char* type : {"Ready", "Reconciling"}) {
    const Condition* condition = FindCondition(status.conditions, type);
    ASSERT_NE(condition, nullptr);
    EXPECT_EQ(condition->reason, "ImageUnavailable");
    EXPECT_EQ(condition->message, status.reason);
  }
  status.state = JobState::kRunning;
  status.reason.clear();
  SetHealth(status, "", WallTime{});
  EXPECT_EQ(FindCondition(status.conditions, "Ready")->reason, "Running");
  EXPECT_EQ(FindCondition(status.conditions, "Stalled"), nullptr) << "it never was";
}

}  // namespace
}  // namespace lockstep::core::health_test
