#include "operator/gang/gang_link.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>

#include "base/net/tcp.h"
#include "tests/base/loop_test_base.h"
#include "tests/operator/gang/lying_agent.h"
#include "tests/operator/gang/scripted_agent.h"

namespace lockstep::gang {
namespace {

using ::testing::HasSubstr;

constexpr const char* kUid = "1b9d6bcd-bbfd-5b2d-9b5d-ab8dfbbd4bed";
constexpr const char* kJob = "default/gpt";

Key KeyOf(uint8_t byte) {
  Key key;
  key.fill(byte);
  return key;
}

class GangLinkTest : public LoopTest, public GangLink::Owner {
 protected:
  std::unique_ptr<ScriptedAgent> Agent(uint32_t machine, uint32_t attempt = 1,
                                       const std::string& host = "127.0.0.1") {
    return std::make_unique<ScriptedAgent>(loop(), kUid, KeyOf(1), machine, attempt, host);
  }

  static GangPeers Peers(const std::vector<const ScriptedAgent*>& agents) {
    GangPeers peers;
    peers.job_uid = kUid;
    peers.key = KeyOf(1);
    for (const ScriptedAgent* agent : agents) peers.members.push_back(agent->member());
    return peers;
  }

  void Open(GangLinkOptions options = {}) {
    options.last_retry = milliseconds(20);
    options.calm = Duration::zero();
    link_ = std::make_unique<GangLink>(loop(), options, this);
  }

  void OnStatus(const std::string& job, const core::GangStatus& status, Time /*at*/) override {
    heard_[job].push_back(status);
    if (on_heard_) on_heard_(job);
  }
  void OnAccepted(const std::string& /*job*/) override { ++accepted_; }

  size_t Heard(const std::string& job = kJob) { return heard_[job].size(); }
  // The last that was heard of the job comes from this machine.
  bool HeardFrom(uint32_t machine) { return Heard() > 0 && heard_[kJob].back().machine == machine; }

  std::unique_ptr<GangLink> link_;
  std::map<std::string, std::vector<core::GangStatus>> heard_;
  std::function<void(const std::string& job)> on_heard_;
  int accepted_ = 0;
};

core::DesiredState Desired(uint32_t epoch) {
  core::DesiredState desired;
  desired.job_uid = kUid;
  desired.epoch = epoch;
  return desired;
}

TEST_F(GangLinkTest, AStatusComesAtOnceAndThenWithEachChangeOverOneConnection) {
  auto machine0 = Agent(0);
  Open();
  link_->Set(kJob, Peers({machine0.get()}));
  ASSERT_TRUE(RunUntil([&] { return Heard() == 1; }));
  EXPECT_EQ(link_->LastError(kJob), "");
  machine0->status.phase = core::CoordinatorPhase::kRunning;
  machine0->Change();
  ASSERT_TRUE(RunUntil([&] { return Heard() == 2; }));
  EXPECT_EQ(heard_[kJob].back().phase, core::GangPhase(core::CoordinatorPhase::kRunning));
  EXPECT_EQ(heard_[kJob].back().version, 2u);
  EXPECT_EQ(machine0->answers, 2);
  EXPECT_EQ(machine0->most_connections, 1u);
}

TEST_F(GangLinkTest, TheSamePeersAgainDisturbNothing) {
  auto machine0 = Agent(0);
  Open();
  link_->Set(kJob, Peers({machine0.get()}));
  ASSERT_TRUE(RunUntil([&] { return Heard() == 1; }));
  link_->Set(kJob, Peers({machine0.get()}));
  machine0->Change();
  ASSERT_TRUE(RunUntil([&] { return Heard() == 2; }));
  EXPECT_EQ(machine0->answers, 2);
}

TEST_F(GangLinkTest, PodsOfIpv6AreAsked) {
  auto machine0 = Agent(0, 1, "::1");
  Open();
  link_->Set(kJob, Peers({machine0.get()}));
  EXPECT_TRUE(RunUntil([&] { return Heard() == 1; })) << link_->LastError(kJob);
}

TEST_F(GangLinkTest, WhileMachine0IsGoneTheOthersAreAskedInTurnAndItAgainWhenItIsBack) {
  auto machine0 = Agent(0);
  auto machine1 = Agent(1);
  auto machine2 = Agent(2);
  Open();
  link_->Set(kJob, Peers({machine0.get(), machine1.get(), machine2.get()}));
  ASSERT_TRUE(RunUntil([&] { return HeardFrom(0); }));
  machine0->Stop();
  ASSERT_TRUE(RunUntil([&] { return HeardFrom(1); }));
  ASSERT_TRUE(RunUntil([&] { return HeardFrom(2); }));
  machine0->Start();
  EXPECT_TRUE(RunUntil([&] { return HeardFrom(0); }));
}

TEST_F(GangLinkTest, ANewMachine0IsAskedAtOnceAndFromItsBeginning) {
  auto first = Agent(0, 1);
  first->status.version = 100;
  Open();
  link_->Set(kJob, Peers({first.get()}));
  ASSERT_TRUE(RunUntil([&] { return Heard() == 1; }));
  auto second = Agent(0, 2);
  link_->Set(kJob, Peers({second.get()}));
  ASSERT_TRUE(RunUntil([&] { return Heard() == 2; }));
  EXPECT_EQ(heard_[kJob].back().attempt, 2u);
}

TEST_F(GangLinkTest, AJobMadeAgainUnderItsNameIsAskedWithItsOwnKey) {
  auto machine0 = Agent(0);
  Open();
  GangPeers peers = Peers({machine0.get()});
  peers.job_uid = "another";
  peers.key = KeyOf(2);
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] { return !link_->LastError(kJob).empty(); }));
  link_->Set(kJob, Peers({machine0.get()}));
  EXPECT_TRUE(RunUntil([&] { return Heard() == 1; }));
}

TEST_F(GangLinkTest, WhoIsNotWhoWasAskedIsNotHeard) {
  auto machine0 = Agent(0, 1);
  Open();
  GangPeers peers = Peers({machine0.get()});
  peers.members[0].attempt = 2;
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] { return machine0->answers >= 2; }));
  EXPECT_EQ(Heard(), 0u);
  EXPECT_THAT(link_->LastError(kJob), HasSubstr("not the agent that was asked"));
}

TEST_F(GangLinkTest, WhoHasAnotherKeyIsNotHeard) {
  auto machine0 = Agent(0);
  Open();
  GangPeers peers = Peers({machine0.get()});
  peers.key = KeyOf(2);
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] { return !link_->LastError(kJob).empty(); }));
  EXPECT_EQ(Heard(), 0u);
  EXPECT_EQ(machine0->answers, 0);
}

TEST_F(GangLinkTest, WhoTakesTheConnectionAndSaysNothingIsGivenUp) {
  const Result<Endpoint> any = MakeEndpoint("127.0.0.1", 0);
  const Result<UniqueFd> mute = ListenTcp(*any, 16);
  ASSERT_TRUE(mute.ok());
  auto member = Agent(1);
  Open();
  GangPeers peers = Peers({member.get()});
  peers.members.push_back({0, 1, LocalEndpoint(mute->get())->ToString()});
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] { return !link_->LastError(kJob).empty(); }));
  EXPECT_THAT(link_->LastError(kJob), HasSubstr("could not be reached in time"));
  EXPECT_TRUE(RunUntil([&] { return HeardFrom(1); }));
}

TEST_F(GangLinkTest, OthersAreAskedBeforeAMachine0ThatOwesItsAnswerIsGivenUp) {
  const Result<Endpoint> any = MakeEndpoint("127.0.0.1", 0);
  const Result<UniqueFd> mute = ListenTcp(*any, 16);
  ASSERT_TRUE(mute.ok());
  auto member = Agent(1);
  Open();
  GangPeers peers = Peers({member.get()});
  peers.machine_lost_after = seconds(3);
  peers.members.push_back({0, 1, LocalEndpoint(mute->get())->ToString()});
  std::string error;
  bool heard = false;
  on_heard_ = [&](const std::string&) { heard = true; };
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] {
    error += link_->LastError(kJob);
    return heard;
  }));
  EXPECT_EQ(error, "");
  EXPECT_TRUE(HeardFrom(1));
  ASSERT_TRUE(RunUntil([&] { return !link_->LastError(kJob).empty(); }));
  EXPECT_THAT(link_->LastError(kJob), HasSubstr("could not be reached in time"));
}

// Before any question to the mute ones is given up.
TEST_F(GangLinkTest, AMemberThatIsDeadAsWellDelaysNobody) {
  const Result<Endpoint> any = MakeEndpoint("127.0.0.1", 0);
  const Result<UniqueFd> mute = ListenTcp(*any, 16);
  ASSERT_TRUE(mute.ok());
  const std::string nobody = LocalEndpoint(mute->get())->ToString();
  auto member = Agent(2);
  Open();
  GangPeers peers = Peers({member.get()});
  peers.machine_lost_after = seconds(3);
  for (const uint32_t dead : {0u, 1u}) peers.members.push_back({dead, 1, nobody});
  std::ranges::sort(peers.members, {}, &GangPeers::Member::machine);
  link_->Set(kJob, peers);
  std::string before;
  ASSERT_TRUE(RunUntil([&] {
    if (Heard() == 0) before += link_->LastError(kJob);
    return Heard() > 0;
  }));
  EXPECT_TRUE(HeardFrom(2));
  EXPECT_EQ(before, "");
}

TEST_F(GangLinkTest, AMemberThatIsLateIsNotAskedTwiceAtATime) {
  const Result<Endpoint> any = MakeEndpoint("127.0.0.1", 0);
  const Result<UniqueFd> mute = ListenTcp(*any, 16);
  ASSERT_TRUE(mute.ok());
  Open();
  GangPeers peers = Peers({});
  peers.machine_lost_after = seconds(3);
  peers.members = {{1, 1, LocalEndpoint(mute->get())->ToString()}};
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] { return !link_->LastError(kJob).empty(); }));
  int asked = 0;
  while (UniqueFd(accept4(mute->get(), nullptr, nullptr, SOCK_NONBLOCK)).get() >= 0) ++asked;
  EXPECT_EQ(asked, 1);
}

TEST_F(GangLinkTest, AMemberIsAskedAgainWhenMachine0sSilenceCounts) {
  auto machine0 = Agent(0);
  auto member = Agent(1);
  core::GangStatus::MachineStatus told;
  told.attempt = 1;
  told.silent_for = seconds(15) - milliseconds(100);
  member->status.machines = {told};
  Open();
  const GangPeers peers = Peers({machine0.get(), member.get()});
  machine0->Stop();
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] { return member->answers == 1; }));
  bool late = false;  // ten times it counts 100 ms later, and not one second
  loop()->StartTimer(BootTime() + seconds(7), [&] { late = true; });
  ASSERT_TRUE(RunUntil([&] { return late || member->answers == 11; }));
  EXPECT_FALSE(late);
}

TEST_F(GangLinkTest, OthersAreLeftAloneOnceMachine0AnswersAgain) {
  auto machine0 = Agent(0);
  auto member = Agent(1);
  Open();
  const GangPeers peers = Peers({machine0.get(), member.get()});
  machine0->Stop();
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] { return HeardFrom(1); }));
  machine0->Start();
  ASSERT_TRUE(RunUntil([&] { return HeardFrom(0); }));
  EXPECT_TRUE(RunUntil([&] { return member->connections() == 0; }));
  EXPECT_EQ(link_->LastError(kJob), "");
}

TEST_F(GangLinkTest, OthersAreAskedThoughOneConnectionIsAllThereMayBe) {
  auto machine0 = Agent(0);
  auto member = Agent(1);
  Open({.max_polls = 1});
  const GangPeers peers = Peers({machine0.get(), member.get()});
  machine0->Stop();
  link_->Set(kJob, peers);
  ASSERT_TRUE(RunUntil([&] { return HeardFrom(1); }));
  machine0->Start();
  EXPECT_TRUE(RunUntil([&] { return HeardFrom(0); }));
}

TEST_F(GangLinkTest, AConnectionThatEndedWhileNobodyAskedIsMadeAgain) {
  auto machine0 = Agent(0);
  Open();
  link_->Set(kJob, Peers({machine0.get()}));
  ASSERT_TRUE(RunUntil([&] { return Heard() == 1; }));
  machine0->Stop();
  machine0->Start();
  machine0->Change();
  EXPECT_TRUE(RunUntil([&] { return Heard() == 2; })) << link_->LastError(kJob);
}

TEST_F(GangLinkTest, AJobWithoutPeersIsAskedOnceItHasSome) {
  auto machine0 = Agent(0);
  Open();
  link_->Set(kJob, Peers({}));
  Settle();
  link_->Set(kJob, Peers({machine0.get()}));
  EXPECT_TRUE(RunUntil([&] { return Heard() == 1; }));
}

TEST_F(GangLinkTest, ADesiredStateIsSaidUntilMachine0HasTakenIt) {
  auto machine0 = Agent(0);
  machine0->refusals = 2;
  Open();
  link_->Set(kJob, Peers({machine0.get()}));
  link_->SetDesiredState(kJob, Desired(3));
  ASSERT_TRUE(RunUntil([&] { return accepted_ == 1; }));
  EXPECT_EQ(machine0->desired_states.size(), 3u);
  EXPECT_TRUE(link_->Accepted(kJob, Desired(3)));
  EXPECT_FALSE(link_->Accepted(kJob, Desired(4)));
  link_->SetDesiredState(kJob, Desired(3));  // taken already
  link_->SetDesiredState(kJob, Desired(4));
  ASSERT_TRUE(RunUntil([&] { return accepted_ == 2; }));
  EXPECT_EQ(machine0->desired_states.size(), 4u);
  EXPECT_EQ(machine0->desired_states.back().epoch, 4u);
}

TEST_F(GangLinkTest, TheNextMachine0IsToldTheDesiredStateToo) {
  auto first = Agent(0, 1);
  Open();
  link_->Set(kJob, Peers({first.get()}));
  link_->SetDesiredState(kJob, Desired(3));
  ASSERT_TRUE(RunUntil([&] { return accepted_ == 1; }));
  auto second = Agent(0, 2);
  link_->Set(kJob, Peers({second.get()}));
  EXPECT_FALSE(link_->Accepted(kJob, Desired(3)));
  ASSERT_TRUE(RunUntil([&] { return accepted_ == 2; }));
  EXPECT_EQ(second->desired_states.size(), 1u);
}

TEST_F(GangLinkTest, ARefusedDesiredStateSaysWhy) {
  auto machine0 = Agent(0);
  machine0->refusals = 1'000'000;
  Open();
  link_->Set(kJob, Peers({machine0.get()}));
  link_->SetDesiredState(kJob, Desired(3));
  ASSERT_TRUE(RunUntil([&] { return Heard() == 1 && machine0->desired_states.size() >= 2; }));
  EXPECT_THAT(link_->LastError(kJob), HasSubstr("older than one seen"));
  EXPECT_EQ(accepted_, 0);
}

TEST_F(GangLinkTest, ADesiredStateTakenBackIsNotSaid) {
  auto machine0 = Agent(0);
  Open();
  link_->Set(kJob, Peers({machine0.get()}));
  link_->SetDesiredState(kJob, Desired(3));
  link_->SetDesiredState(kJob, std::nullopt);
  ASSERT_TRUE(RunUntil([&] { return Heard() == 1; }));
  Settle();
  EXPECT_TRUE(machine0->desired_states.empty());
}

TEST_F(GangLinkTest, AJobMayBeForgottenInItsOwnCallback) {
  auto machine0 = Agent(0);
  Open();
  on_heard_ = [this](const std::string& job) { link_->Forget(job); };
  link_->Set(kJob, Peers({machine0.get()}));
  ASSERT_TRUE(RunUntil([&] { return Heard() == 1; }));
  ASSERT_TRUE(RunUntil([&] { return machine0->connections() == 0; }));
  machine0->Change();
  Settle();
  EXPECT_EQ(Heard(), 1u);
}

TEST_F(GangLinkTest, ManyJobsTakeTurnsAtFewConnections) {
  auto machine0 = Agent(0);
  Open({.max_polls = 4});
  constexpr size_t kJobs = 40;
  for (size_t i = 0; i < kJobs; ++i) {
    link_->Set("default/job-" + std::to_string(i), Peers({machine0.get()}));
  }
  ASSERT_TRUE(RunUntil([&] { return heard_.size() == kJobs; }));
  EXPECT_LE(machine0->most_connections, 8u);  // it may not have heard yet that four have left
  for (size_t i = 0; i < kJobs; ++i) link_->Forget("default/job-" + std::to_string(i));
  EXPECT_TRUE(RunUntil([&] { return machine0->connections() == 0; }));
}

TEST_F(GangLinkTest, AJobTooManyDoesNotCostTheOthersTheirConnectionsAtEachPoll) {
  auto machine0 = Agent(0);
  Open({.max_polls = 8, .first_gap = milliseconds(1), .last_gap = milliseconds(1)});
  on_heard_ = [&](const std::string&) { machine0->Change(); };
  const Time began = BootTime();
  constexpr size_t kJobs = 9;
  for (size_t i = 0; i < kJobs; ++i) {
    link_->Set("default/job-" + std::to_string(i), Peers({machine0.get()}));
  }
  ASSERT_TRUE(RunUntil([&] {
    return heard_.size() == kJobs &&
           std::ranges::all_of(heard_, [](const auto& job) { return job.second.size() >= 20; });
  }));
  const int64_t turns = (BootTime() - began) / milliseconds(4);
  EXPECT_LE(machine0->accepted, turns + 9);
}

TEST_F(GangLinkTest, AMachine0ThatAlwaysHasNewsIsAskedLessAndLessOften) {
  auto machine0 = Agent(0);
  Open({.first_gap = milliseconds(20), .last_gap = milliseconds(80)});
  on_heard_ = [&](const std::string&) { machine0->Change(); };
  const Time began = BootTime();
  link_->Set(kJob, Peers({machine0.get()}));
  // Gaps of 20, 40 and 80 ms from the first question on; the answer to the fifth comes after 220.
  ASSERT_TRUE(RunUntil([&] { return Heard() == 5; }));
  EXPECT_GE(BootTime() - began, milliseconds(220));
}

TEST_F(GangLinkTest, TheMoreGangsRunTheLessOftenEachIsAsked) {
  auto machine0 = Agent(0);
  machine0->status.phase = core::CoordinatorPhase::kRunning;
  Open({.calm_a_job = milliseconds(10), .first_gap = milliseconds(1), .last_gap = milliseconds(1)});
  on_heard_ = [&](const std::string&) { machine0->Change(); };
  const Time began = BootTime();
  for (int i = 0; i < 20; ++i) {
    link_->Set(i == 0 ? kJob : "default/job-" + std::to_string(i), Peers({machine0.get()}));
  }
  ASSERT_TRUE(RunUntil([&] { return Heard() == 3; }));
  EXPECT_GE(BootTime() - began, 2 * 20 * milliseconds(10));
}

TEST_F(GangLinkTest, AnAnswerOfNoUseIsToldFromSilence) {
  LyingAgent liar(loop(), kUid, KeyOf(1), /*readable=*/false);
  ASSERT_TRUE(liar.Listen(*MakeEndpoint("127.0.0.1", 0)).ok());
  auto machine0 = Agent(0);
  const std::string address = machine0->member().address;
  machine0.reset();
  Open();
  GangPeers peers = Peers({});
  peers.members = {{0, 1, liar.endpoint().ToString()}};
  link_->Set("default/liar", peers);
  peers.members = {{0, 1, address}};
  link_->Set("default/silent", peers);
  ASSERT_TRUE(RunUntil([&] {
    return !link_->LastError("default/liar").empty() && !link_->LastError("default/silent").empty();
  }));
  EXPECT_TRUE(link_->IsUnreadable("default/liar"));
  EXPECT_FALSE(link_->IsUnreadable("default/silent"));
}

TEST_F(GangLinkTest, AgentsThatAnswerAnythingAreAskedSeldomAndDelayNoOtherJob) {
  std::vector<std::unique_ptr<LyingAgent>> liars;
  Duration medians[2] = {};
  for (Duration& median : medians) {  // without liars, and with ten
    std::vector<std::unique_ptr<ScriptedAgent>> honest;
    Open();
    const Time began = BootTime();
    for (size_t i = 0; i < liars.size(); ++i) {
      GangPeers peers = Peers({});
      peers.members = {{0, 1, liars[i]->endpoint().ToString()}};
      link_->Set("liar/" + std::to_string(i), peers);
    }
    std::vector<Duration> latencies;
    for (int i = 0; i < 16; ++i) {
      const std::string name =
          "honest/" + std::to_string(latencies.size()) + "/" + std::to_string(liars.size());
      honest.push_back(Agent(0));
      link_->Set(name, Peers({honest.back().get()}));
      ASSERT_TRUE(RunUntil([&] { return Heard(name) == 1; }));
      bool asked_again = false;  // its next question, which waits for news, comes 50 ms after
      loop()->StartTimer(BootTime() + milliseconds(80), [&] { asked_again = true; });
      ASSERT_TRUE(RunUntil([&] { return asked_again; }));
      const Time changed = BootTime();
      honest.back()->Change();
      ASSERT_TRUE(RunUntil([&] { return Heard(name) == 2; }));
      latencies.push_back(BootTime() - changed);
    }
    std::ranges::nth_element(latencies, latencies.begin() + 8);
    median = latencies[8];
    const auto took = static_cast<double>((BootTime() - began) / milliseconds(1));
    for (const auto& liar : liars) {
      // Four quick questions; then two a second, and for each of its errors one more.
      EXPECT_LE(liar->asked(), 12 + 8 * took / 1000);
    }
    for (int i = 0; i < 10; ++i) {
      liars.push_back(std::make_unique<LyingAgent>(loop(), kUid, KeyOf(1)));
      ASSERT_TRUE(liars.back()->Listen(*MakeEndpoint("127.0.0.1", 0)).ok());
    }
  }
  // Some 0.2 ms either way on a quiet machine; the bound is for a crowded one.
  EXPECT_LE(medians[1], milliseconds(250));
  RecordProperty("without_us", std::to_string(medians[0] / microseconds(1)));
  RecordProperty("with_us", std::to_string(medians[1] / microseconds(1)));
}

}  // namespace
}  // namespace lockstep::gang
