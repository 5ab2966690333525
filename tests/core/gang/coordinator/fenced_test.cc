// What the operator tells machine 0 of the ends of earlier attempts counts whenever it comes.
#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

class FencedTest : public GangFixture {
 protected:
  // A machine 0 that is its machine's third attempt, of a gang that never ran; nobody has joined,
  // and nobody can tell how the attempts before ended.
  void BeginAnew() {
    CoordinatorConfig config;
    config.job_uid = "job";
    config.attempt = 3;
    config.machines = 2;
    config.processes = 2;
    config.predecessor_dead = false;
    machines_.resize(2);
    coordinator_ = std::make_unique<Coordinator>(config, now_);
  }
  void Say(std::vector<DesiredState::Fenced> fenced) {
    DesiredState desired;
    desired.job_uid = "job";
    desired.fenced = std::move(fenced);
    Desire(desired);
  }
  void JoinAll() {
    Join(0, 3, 2, /*predecessor_dead=*/false);
    Join(1, 2, 2, /*predecessor_dead=*/false);
    Settle();
  }
};

TEST_F(FencedTest, NobodyWhoCanTellIsWaitedForWithoutAnEnd) {
  BeginAnew();
  JoinAll();
  Advance(minutes(10), seconds(1));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
}

TEST_F(FencedTest, IsKnownOfWhoSaysHelloAfterTheOperatorSpoke) {
  BeginAnew();
  Say({{0, 3}, {1, 2}});
  JoinAll();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(FencedTest, IsKnownOfWhoJoinedBefore) {
  BeginAnew();
  JoinAll();
  Say({{0, 3}, {1, 2}});
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(FencedTest, IsSaidOfOneAttemptAlone) {
  BeginAnew();
  Say({{0, 3}, {1, 1}});
  Say({{1, 2}});
  Say({{0, 3}});  // what it does not say any more does not count for who joins later
  JoinAll();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
}

// One machine's word that no lease of an older coordinator can run any more is enough, and is given
// with its first answer to a PING.
TEST_F(FencedTest, MakesAWitnessOfWhoHasNotAnsweredYet) {
  BeginAnew();
  Join(0, 3, 2, /*predecessor_dead=*/false);
  Settle();
  Hello hello;
  hello.job_uid = "job";
  hello.machine = 1;
  hello.attempt = 2;
  hello.machines = hello.processes = 2;
  constexpr ConnectionId kConnection = 77;
  const CoordinatorActions greeted = coordinator_->OnMessage(now_, kConnection, hello);
  Say({{1, 2}});
  for (const CoordinatorAction& action : greeted) {
    const auto* send = std::get_if<SendTo>(&action);
    const auto* ping = send == nullptr ? nullptr : std::get_if<Ping>(&send->message);
    if (ping == nullptr || send->connection != kConnection) continue;
    Do(coordinator_->OnMessage(now_, kConnection, Pong{ping->sent, now_, {}, {}}));
  }
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  now_ += policy_.machine_lost_after + milliseconds(1);
  Do(coordinator_->OnTimer(now_));
  EXPECT_NE(coordinator_->phase(), CoordinatorPhase::kFencing);
}

// Attempts are given out twice after an etcd was restored: the operator speaks of those below both.
TEST_F(FencedTest, SaysNothingOfAnotherAgentOfTheSameAttempt) {
  Begin(2);
  Join(1, 2);
  Settle();
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  Cut(1);
  Join(1, 2);
  Settle();
  ASSERT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing);
  Say({{1, 2}});
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kFencing) << "the first one's lease runs";
  Advance(seconds(16));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

}  // namespace
}  // namespace lockstep::core
