#include "worker/agent/evidence/evidence_collector.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "tests/base/loop_test_base.h"
#include "tests/base/no_threads.h"

namespace lockstep::agent {
namespace {

class EvidenceCollectorTest : public LoopTest {
 protected:
  EvidenceCollectorTest() {
    std::string pattern = ::testing::TempDir() + "collector-XXXXXX";
    config_.run_dir = mkdtemp(pattern.data());
  }
  ~EvidenceCollectorTest() override { std::filesystem::remove_all(config_.run_dir); }

  core::AgentConfig config_;
};

TEST_F(EvidenceCollectorTest, AHangIsLookedAtHoweverManyAskForEvidence) {
  EvidenceCollector collector(loop(), &config_, [](const std::string&) {});
  const std::vector<RankProcess> ranks = {{3, getpid()}};
  bool refused = false;
  while (!refused) {
    collector.Answer({1, 1}, ranks,
                     [&](const Result<std::string>& file) { refused |= !file.ok(); });
  }
  std::optional<std::vector<core::Whereabouts>> found;
  collector.Collect({1, 1}, ranks, BootTime() + minutes(1),
                    [&](auto places) { found = std::move(places); });
  ASSERT_TRUE(RunUntil([&] { return found.has_value(); }));
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().rank, 3u);
}

TEST_F(EvidenceCollectorTest, AskedWhereTheMachineHasNoThreadLeftItSaysSoAndGoesOn) {
  std::string said;
  EvidenceCollector collector(loop(), &config_, [&said](const std::string& line) { said = line; });
  const NoThreads none;
  std::string why;
  collector.Answer({1, 1}, {{3, getpid()}}, [&](const Result<std::string>& file) {
    why = file.ok() ? "" : file.error().message;
  });
  EXPECT_THAT(why, testing::HasSubstr("no thread can be started"));
  bool told = false;
  collector.Collect({1, 1}, {{3, getpid()}}, BootTime() + minutes(1),
                    [&told](const auto&) { told = true; });
  EXPECT_TRUE(RunUntil([&] { return told; }));
  EXPECT_THAT(said, testing::HasSubstr("no thread can be started"));
}

TEST_F(EvidenceCollectorTest, WhatEndedProcessesLeftIsRemovedThoughNobodyAsks) {
  EvidenceCollector collector(loop(), &config_, [](const std::string&) {}, milliseconds(1));
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
