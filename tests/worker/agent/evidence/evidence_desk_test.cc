#include "worker/agent/evidence/evidence_desk.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
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
  desk.Collect({1, 1}, ranks, BootTime() + minutes(1), [&](auto places) { found = places; });
  ASSERT_TRUE(RunUntil([&] { return found.has_value(); }));
  ASSERT_EQ(found->size(), 1u);
  EXPECT_EQ(found->front().rank, 3u);
}

}  // namespace
}  // namespace lockstep::agent
