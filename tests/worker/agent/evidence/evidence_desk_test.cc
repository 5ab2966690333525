#include "worker/agent/evidence/evidence_desk.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/base/loop_test_base.h"

namespace lockstep::agent {
namespace {

class EvidenceDeskTest : public LoopTest {
 protected:
  EvidenceDeskTest() {
    std::string pattern = ::testing::TempDir() + "desk-XXXXXX";
    config_.run_dir = mkdtemp(pattern.data());
  }
  ~EvidenceDeskTest() override { std::filesystem::remove_all(config_.run_dir); }

  core::AgentConfig config_;
};

TEST_F(EvidenceDeskTest, AHangIsLookedAtHoweverManyAskForEvidence) {
  EvidenceDesk desk(loop(), &config_, [](const std::string&) {});
  const std::vector<RankProcess> ranks = {{3, getpid()}};
  bool refused = false;
  while (!refused) {
    desk.Answer({1, 1}, ranks, [&](const Result<std::string>& file) { refused |= !file.ok(); });
  }
  std::optional<std::vector<core::Whereabouts>> found;
  desk.Collect({1, 1}, ranks, BootTime() + minutes(1),
               [&](auto places) { found = std::move(places); });
  ASSERT_TRUE(RunUntil([&] { return found.has_value(); }));
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().rank, 3u);
}

TEST_F(EvidenceDeskTest, WhatEndedProcessesLeftIsRemovedThoughNobodyAsks) {
  EvidenceDesk desk(loop(), &config_, [](const std::string&) {}, milliseconds(1));
  const std::string folder = config_.run_dir + "/stacks/";
  const std::string own = folder + std::to_string(getpid());
  const std::string ended = folder + "2000000000";  // above what a PID can be
  for (int i = 0; i < 2; ++i) {
    std::ofstream(own) << "7\n";
    std::ofstream(ended) << "7\n";
    ASSERT_TRUE(RunUntil([&] { return !std::filesystem::exists(ended); }));
  }
  EXPECT_TRUE(std::filesystem::exists(own));
}

}  // namespace
}  // namespace lockstep::agent
