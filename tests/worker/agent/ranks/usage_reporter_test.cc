#include "worker/agent/ranks/usage_reporter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "tests/base/loop_test_base.h"

namespace lockstep::agent {
namespace {

class UsageReporterTest : public LoopTest {
 protected:
  std::vector<RankView> ranks_;
  int asked_ = 0;
  std::optional<core::Usage> usage_;
  std::optional<core::RankActivity> activity_;
  UsageReporter reporter_{loop(),
                          [this] {
                            ++asked_;
                            return ranks_;
                          },
                          [this](const core::Usage& usage, const core::RankActivity& activity) {
                            usage_ = usage;
                            activity_ = activity;
                          },
                          milliseconds(1)};
};

TEST_F(UsageReporterTest, MeasuresNothingWhileNoRankMayLive) {
  EXPECT_TRUE(RunUntil([this] { return asked_ >= 3; }));
  EXPECT_FALSE(usage_.has_value());
}

TEST_F(UsageReporterTest, MeasuresTheProcessesOfRanks) {
  ranks_.emplace_back().pid = getpid();
  EXPECT_TRUE(RunUntil([this] { return usage_.has_value() && usage_->cpu_millicores >= 0; }));
  EXPECT_GT(usage_->memory, 0);
  EXPECT_EQ(activity_->ranks, 1U);
}

TEST_F(UsageReporterTest, LeavesOutARankWithoutAProcess) {
  ranks_.emplace_back();
  EXPECT_TRUE(RunUntil([this] { return usage_.has_value(); }));
  EXPECT_EQ(activity_->ranks, 0U);
}

}  // namespace
}  // namespace lockstep::agent
