// A new machine 0 starts nothing while ranks of the one before it may live, and waits no longer.
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

// A machine 0 was lost, and another one made: it has joined, and the others of the old gang not
// yet.
class NewCoordinatorTest : public GangFixture {
 protected:
  // `silent`: for so long the old machine 0 had been, to all.
  void BeginAgain(uint32_t machines, Duration silent) {
    Begin(machines);
    for (Machine& machine : machines_) machine.cut = true;
    for (uint32_t i = 1; i < machines; ++i) Cut(i);
    for (const Time end = now_ + silent; now_ < end; now_ += milliseconds(50)) {
      for (uint32_t i = 1; i < machines; ++i) Do(i, machines_[i].member->OnTimer(now_));
    }
    CoordinatorConfig config = coordinator_->config();
    config.attempt = 2;
    config.predecessor_dead = false;
    coordinator_ = std::make_unique<Coordinator>(config, now_);
    Join(0, 2, 2, /*predecessor_dead=*/false);
    Settle();
  }
};

TEST_F(NewCoordinatorTest, WaitsUntilTheOldOnesLeasesAreOut) {
  BeginAgain(2, Duration::zero());
  Connect(1);
  Settle();
  // The survivor killed its ranks on hearing of the new coordinator; the old machine 0's may live.
  EXPECT_EQ(machines_[1].member->phase(), MemberPhase::kStopped);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Advance(seconds(14));
  EXPECT_EQ(machines_[1].spawns.size(), 1U);
  Advance(seconds(2));
  EXPECT_EQ(machines_[1].spawns.size(), 2U);
  EXPECT_EQ(coordinator_->generation().ToString(), "2-1");
}

TEST_F(NewCoordinatorTest, CountsTheTimeForWhichASurvivorHadNotAnsweredTheOldOne) {
  BeginAgain(2, seconds(12));
  Connect(1);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Advance(milliseconds(2500));
  EXPECT_EQ(machines_[1].spawns.size(), 1U);
  Advance(seconds(1));
  EXPECT_EQ(machines_[1].spawns.size(), 2U);
}

TEST_F(NewCoordinatorTest, StartsAtOnceAfterThatOnesLeases) {
  BeginAgain(2, seconds(16));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kGathering);
  Connect(1);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().ToString(), "2-1");
}

// The lost machine 1's ranks had the old coordinator's lease, too.
TEST_F(NewCoordinatorTest, StartsAtOnceBesideAnotherMachineThatWasLost) {
  BeginAgain(3, seconds(16));
  Connect(2);
  Join(1, 2, 2, /*predecessor_dead=*/false);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(NewCoordinatorTest, WaitsForEverWhereNobodyIsLeftOfTheOldGang) {
  BeginAgain(2, seconds(16));
  Join(1, 2, 2, /*predecessor_dead=*/false);
  Settle();
  Advance(minutes(10), seconds(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
}

// It answered this coordinator, and may have ranks of this one's.
TEST_F(NewCoordinatorTest, WaitsForTheLeaseOfAPredecessorThatItKnew) {
  BeginAgain(2, seconds(16));
  Connect(1);
  Settle();
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  machines_[1].cut = true;
  Join(1, 2, 2, /*predecessor_dead=*/false);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Advance(seconds(14));
  EXPECT_EQ(machines_[1].spawns.size(), 0U);
  Advance(seconds(2));
  EXPECT_EQ(machines_[1].spawns.size(), 1U);
}

}  // namespace
}  // namespace lockstep::core
