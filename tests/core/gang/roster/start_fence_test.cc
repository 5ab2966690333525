#include "core/gang/roster/start_fence.h"

#include <gtest/gtest.h>

#include "tests/core/gang/parts.h"

namespace lockstep::core::start_fence_test {
namespace {

const Members kBoth = Members::All(2);

class StartFenceTest : public testing::Test {
 protected:
  StartFenceTest() {
    for (Roster::Slot& slot : parts_.roster) {
      slot.predecessor_confirmed = true;
      slot.report.phase = MemberPhase::kIdle;
    }
    Answer(0);
    Answer(1);
  }
  void Answer(uint32_t machine) {
    Pong pong;
    pong.ping_sent = pong.now = lease_.Stamp(kBorn);
    EXPECT_TRUE(lease_.OnPong(pong.now, machine, pong));
  }
  bool OldRanksMayLive(Time now = kBorn) const { return fence_.OldRanksMayLive(now, kBoth); }
  Roster::Slot& machine(size_t index) { return parts_.roster[index]; }

  static constexpr Time kBorn = seconds(100);
  Parts parts_{2};
  LeaseClock lease_{2, seconds(10), kBorn};
  StartFence fence_{3, parts_.roster, lease_};
};

TEST_F(StartFenceTest, ReachesMachinesThatAreConnectedAndHaveAnsweredAPing) {
  EXPECT_TRUE(fence_.Reaches(Members::All(2)));
  lease_.Reset(1);
  EXPECT_FALSE(fence_.Reaches(Members::All(2))) << "its present agent has answered nothing";
  EXPECT_TRUE(fence_.Reaches(Members::Of({0})));
  machine(0).draining = true;
  EXPECT_FALSE(fence_.Reaches(Members::Of({0})));
}

TEST_F(StartFenceTest, IsOpenIfNoMemberReportsRanks) { EXPECT_FALSE(OldRanksMayLive()); }

TEST_F(StartFenceTest, WaitsForRanksOfThisAndOfEarlierCoordinators) {
  for (const uint32_t attempt : {2U, 3U}) {
    machine(1).report.generation = {attempt, 1};
    machine(1).report.phase = MemberPhase::kStopping;
    EXPECT_TRUE(OldRanksMayLive());
    machine(1).report.phase = MemberPhase::kStopped;
    EXPECT_FALSE(OldRanksMayLive());
  }
}

TEST_F(StartFenceTest, WaitsForKeptProcessesOfAnEarlierCoordinatorOnly) {
  machine(1).report.phase = MemberPhase::kStopped;
  machine(1).report.kept = {2};
  machine(1).report.generation = {2, 1};
  EXPECT_TRUE(OldRanksMayLive()) << "they cannot continue under this coordinator";
  machine(1).report.generation = {3, 1};
  EXPECT_FALSE(OldRanksMayLive()) << "they continue in the next generation";
}

TEST_F(StartFenceTest, WaitsUntilTheLeaseOfAReplacedAgentHasEnded) {
  machine(1).predecessor_out = seconds(130);
  EXPECT_TRUE(OldRanksMayLive(seconds(130) - nanoseconds(1)));
  EXPECT_FALSE(OldRanksMayLive(seconds(130)));
}

TEST_F(StartFenceTest, WaitsUntilTheLeaseOfASilentMachineThatIsLeftOutHasEnded) {
  machine(1).report.phase = MemberPhase::kRunning;
  parts_.roster.SetMembers(Members::Of({0}));
  const Time out = lease_.SilentSince(1) + lease_.LossLength(kBorn);
  EXPECT_TRUE(OldRanksMayLive(out - nanoseconds(1)));
  EXPECT_FALSE(OldRanksMayLive(out));
  machine(1).report.phase = MemberPhase::kStopped;
  EXPECT_FALSE(OldRanksMayLive(kBorn)) << "its agent reports that its ranks are dead";
}

TEST_F(StartFenceTest, WaitsForAWitnessOfAnEarlierCoordinatorsEnd) {
  for (Roster::Slot& slot : parts_.roster) slot.predecessor_confirmed = false;
  EXPECT_TRUE(OldRanksMayLive(hours(1))) << "no witness can tell";
  machine(0).older_out = seconds(120);
  EXPECT_TRUE(OldRanksMayLive(seconds(120) - nanoseconds(1)));
  EXPECT_FALSE(OldRanksMayLive(seconds(120)));
}

}  // namespace
}  // namespace lockstep::core::start_fence_test
