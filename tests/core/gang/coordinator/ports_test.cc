#include <gmock/gmock.h>

#include <csignal>

#include "tests/core/gang/gang_fixture.h"

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CoordinatorPortsTest : public GangFixture {
 protected:
  CoordinatorPortsTest() { ports_ = true; }
  const std::vector<MachinePorts>& Told(uint32_t machine) {
    return machines_[machine].spawns.back().start.ports;
  }
  // Machines that answer nothing until the test lets them.
  void BeginHeld(uint32_t machines) {
    prepare_hangs_ = true;
    Begin(machines);
    for (Machine& m : machines_) m.hold_ports = true;
    prepare_hangs_ = false;
    Do(coordinator_->OnPrepared(now_, {prepared_.back(), "127.0.0.1", 29500, "", ""}));
    Settle();
  }
};

TEST_F(CoordinatorPortsTest, WithoutThemStartHasNoAddresses) {
  ports_ = false;
  Begin(2);
  EXPECT_THAT(Told(1), IsEmpty());
  EXPECT_THAT(found_ports_, IsEmpty());
  EXPECT_THAT(machines_[1].tried_ports, IsEmpty());
}

TEST_F(CoordinatorPortsTest, EveryMachineIsToldOfAllAddressesAndTheirPorts) {
  Begin(3);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_THAT(Told(i),
                ElementsAre(MachinePorts{"10.0.0.10", 20000}, MachinePorts{"10.0.0.11", 20000},
                            MachinePorts{"10.0.0.12", 20000}));
  }
  ASSERT_THAT(found_ports_, SizeIs(1));
  EXPECT_EQ(found_ports_[0].count, 2U) << "one for each process of a machine";
}

TEST_F(CoordinatorPortsTest, MachinesOfOneComputerHavePortsOfTheirOwnThatMachine0FindsAlone) {
  one_computer_ = true;
  Begin(3);
  EXPECT_THAT(Told(2),
              ElementsAre(MachinePorts{"10.0.0.10", 20000}, MachinePorts{"10.0.0.11", 20002},
                          MachinePorts{"10.0.0.12", 20004}));
  EXPECT_EQ(found_ports_[0].count, 6U);
  EXPECT_THAT(machines_[1].tried_ports, IsEmpty()) << "it would be in machine 0's way";
}

TEST_F(CoordinatorPortsTest, NoRankRunsBeforeEveryOtherMachineHasSaidThatItsPortsAreFree) {
  BeginHeld(3);
  EXPECT_THAT(machines_[0].tried_ports, IsEmpty());
  AnswerPorts(1);
  Settle();
  EXPECT_THAT(machines_[0].spawns, IsEmpty());
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kPreparing);
  AnswerPorts(2);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
}

TEST_F(CoordinatorPortsTest, APortThatIsTakenSomewhereMakesAllTryOthers) {
  BeginHeld(3);
  machines_[2].taken = {20001, 20002};
  AnswerPorts(2);
  Settle();
  EXPECT_EQ(machines_[1].tried_ports.back().first, 20002U);
  AnswerPorts(2);
  Settle();
  // It answers what nobody asks any more.
  Do(1, machines_[1].member->OnAnswer(now_, PortsTried{coordinator_->generation(), 20000, 0}));
  AnswerPorts(2);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kPreparing);
  AnswerPorts(1);
  Settle();
  EXPECT_EQ(Told(1)[1].first, 20004U);
  EXPECT_EQ(coordinator_->generation().n, 1U) << "no generation is spent on it";
}

TEST_F(CoordinatorPortsTest, WhoConnectsAgainIsAskedAgain) {
  BeginHeld(2);
  machines_[1].hold_ports = false;
  // Machine 0 has not noticed that the last connection ended, with the question in it.
  Do(1, machines_[1].member->OnDisconnected(now_));
  Connect(1);
  Settle();
  EXPECT_THAT(machines_[1].tried_ports, SizeIs(2));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().n, 1U);
}

TEST_F(CoordinatorPortsTest, AMachineThatTookAnothersPlaceIsToldOfByItsOwnAddress) {
  Begin(2);
  machines_[1].cut = true;
  Join(1, 2);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(Told(0)[1].address, "10.0.0.21");
}

TEST_F(CoordinatorPortsTest, EachGenerationHasOthers) {
  Begin(2);
  Kill(1, 3, SIGKILL);
  EXPECT_EQ(machines_[0].spawns[0].start.ports[0].first, 20000U);
  EXPECT_EQ(machines_[0].spawns[1].start.ports[0].first, 20002U);
}

TEST_F(CoordinatorPortsTest, WhereAllThatItFindsAreTakenItSaysSoAndTriesAgainLater) {
  BeginHeld(2);
  for (uint32_t port = 20000; port < 20032; ++port) machines_[1].taken.insert(port);
  machines_[1].hold_ports = false;
  AnswerPorts(1);
  Settle();
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kBackoff);
  EXPECT_THAT(coordinator_->Reason(),
              HasSubstr("1-1 could not be prepared: no 2 ports in a row are free on every machine; "
                        "the last one in use was port 20030 of machine 1"));
  EXPECT_THAT(found_ports_, SizeIs(16));
  Advance(seconds(2));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().n, 2U);
}

TEST_F(CoordinatorPortsTest, WhereAMachineSaysNothingForLongItSaysWhatItWaitsFor) {
  BeginHeld(2);
  Advance(seconds(6));
  EXPECT_THAT(coordinator_->Reason(), HasSubstr("reported its free ports"));
}

TEST_F(CoordinatorPortsTest, WhereMachine0HasNoneItSaysSoAndTriesAgainLater) {
  ports_error_ = "no 2 free ports in a row from 20000 to 32767";
  Begin(2);
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kBackoff);
  EXPECT_THAT(coordinator_->Reason(), HasSubstr("1-1 could not be prepared: no 2 free ports"));
  ports_error_.clear();
  Advance(seconds(2));
  EXPECT_EQ(coordinator_->phase(), CoordinatorPhase::kRunning);
  EXPECT_EQ(coordinator_->generation().n, 2U);
}

}  // namespace
}  // namespace lockstep::core
