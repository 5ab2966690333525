#include "operator/controller/metrics/job_figures.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

namespace lockstep::control {
namespace {

using core::JobState;

class JobFiguresTest : public testing::Test {
 protected:
  bool Shows(const std::string& line) const {
    const std::string page = "\n" + prometheus::TextSerializer().Serialize(registry_.Collect());
    return page.find("\n" + line + "\n") != std::string::npos;
  }

  prometheus::Registry registry_;
  JobFigures figures_{&registry_};
  core::JobStatus before_;
  core::JobStatus after_;
};

TEST_F(JobFiguresTest, AJobCountsInItsLastStateUntilItIsGone) {
  JobRecord job;
  JobRecord other;
  figures_.SetState(JobState::kPending, &other);
  figures_.SetState(JobState::kPending, &job);
  figures_.SetState(JobState::kPending, &job);
  EXPECT_TRUE(Shows(R"(lockstep_operator_jobs{state="Pending"} 2)"));
  figures_.SetState(JobState::kRunning, &job);
  EXPECT_TRUE(Shows(R"(lockstep_operator_jobs{state="Pending"} 1)"));
  EXPECT_TRUE(Shows(R"(lockstep_operator_jobs{state="Running"} 1)"));
  figures_.SetState(std::nullopt, &job);
  EXPECT_TRUE(Shows(R"(lockstep_operator_jobs{state="Running"} 0)"));
}

TEST_F(JobFiguresTest, SparesOfAllJobsAreAddedUp) {
  JobRecord job;
  JobRecord other;
  figures_.SetSpares(2, &job);
  figures_.SetSpares(1, &other);
  figures_.SetSpares(1, &job);
  EXPECT_TRUE(Shows("lockstep_operator_spares 2"));
  figures_.SetSpares(0, &job);
  EXPECT_TRUE(Shows("lockstep_operator_spares 1"));
}

TEST_F(JobFiguresTest, RestartsCountByWhatTheStatusGrewBy) {
  after_.restarts.application = 2;
  figures_.OnWritten(before_, after_, seconds(1));
  figures_.OnWritten(after_, after_, seconds(1));
  EXPECT_TRUE(Shows(R"(lockstep_operator_restarts_total{cause="application"} 2)"));
  EXPECT_TRUE(Shows(R"(lockstep_operator_restarts_total{cause="stopped"} 0)"));
}

TEST_F(JobFiguresTest, LossesCountOnceTheyAreSettled) {
  core::LedgerSums sums;
  sums.activities[core::Activity::kRedone] = 2500;
  after_.ledger = core::Ledger{.sums = sums, .open = core::Ledger::Open{.sums = sums}};
  figures_.OnWritten(before_, after_, seconds(1));
  EXPECT_TRUE(Shows(R"(lockstep_operator_lost_machine_seconds_total{to="Redone"} 0)"));
  before_ = after_;
  after_.ledger->open.reset();
  figures_.OnWritten(before_, after_, seconds(1));
  EXPECT_TRUE(Shows(R"(lockstep_operator_lost_machine_seconds_total{to="Redone"} 2.5)"));
}

TEST_F(JobFiguresTest, EvidenceOfNodesCountsByWhatTheStatusGrewBy) {
  after_.suspect_nodes = {{.node = "a", .evidence = "Lost", .count = 2, .message = "lost"}};
  figures_.OnWritten(before_, after_, seconds(1));
  before_ = after_;
  after_.suspect_nodes[0].count = 3;
  figures_.OnWritten(before_, after_, seconds(1));
  figures_.OnWritten(after_, after_, seconds(1));
  EXPECT_TRUE(Shows(R"(lockstep_operator_node_evidence_total{evidence="Lost",node="a"} 3)") ||
              Shows(R"(lockstep_operator_node_evidence_total{node="a",evidence="Lost"} 3)"));
}

TEST_F(JobFiguresTest, TheWayToPodsAndToRunningIsMeasuredOnce) {
  after_.created_epoch = 1;
  figures_.OnWritten(before_, after_, seconds(2));
  before_ = after_;
  after_.timings.started = WallTime(seconds(5));
  figures_.OnWritten(before_, after_, seconds(3));
  figures_.OnWritten(after_, after_, seconds(4));
  EXPECT_TRUE(Shows("lockstep_operator_creation_to_pods_seconds_sum 2"));
  EXPECT_TRUE(Shows("lockstep_operator_creation_to_running_seconds_sum 3"));
}

}  // namespace
}  // namespace lockstep::control
