#include "cli/run/machines/local_machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli::local_machines_test {
namespace {

using control::MachineEnd;
using control::StopMachine;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Time kStart = hours(1);
constexpr Duration kPatience = seconds(45);
const WallTime kWall = WallTime(hours(24 * 365 * 50));

MachineEnd Exited(int code) {
  MachineEnd end;
  end.exit_code = code;
  return end;
}

// Two machines, whose first attempts run since kStart.
LocalMachines TwoRun() {
  LocalMachines machines({.wall = kWall, .boot = kStart});
  machines.Started(0, 1, kStart);
  machines.Started(1, 1, kStart + seconds(1));
  return machines;
}

std::vector<control::MachineObservation> Seen(const LocalMachines& machines) {
  return machines.Observe({{"127.0.0.1", ""}, {"127.0.0.2", "n2"}});
}

StopMachine StopOf(const LocalMachines& machines, size_t which, std::optional<int64_t> grace) {
  const control::MachineObservation seen = Seen(machines)[which];
  return {seen.name, seen.uid, grace};
}

TEST(LocalMachines, AnAgentThatRunsIsSeenAtItsAddressWithItsTimes) {
  const auto seen = Seen(TwoRun());
  ASSERT_THAT(seen, SizeIs(2));
  EXPECT_EQ(seen[1].machine, 1);
  EXPECT_EQ(seen[1].attempt, 1U);
  EXPECT_EQ(seen[1].stage, control::Stage::kRunning);
  EXPECT_TRUE(seen[1].ready);
  EXPECT_EQ(seen[1].address, "127.0.0.2");
  EXPECT_EQ(seen[1].node, "n2");
  EXPECT_EQ(seen[1].created, kWall + seconds(1));
  EXPECT_EQ(seen[1].started, kWall + seconds(1));
  EXPECT_FALSE(seen[1].over() || seen[1].leave_by);
  EXPECT_NE(seen[0].name, seen[1].name);
}

TEST(LocalMachines, AMachineThatWaitsForItsPlaceRunsNothingUntilItHasOne) {
  LocalMachines machines({.wall = kWall, .boot = kStart});
  machines.Waits(1, 4, kStart);
  EXPECT_FALSE(machines.IsFree(1)) << "it is made once";
  EXPECT_FALSE(machines.running());
  ASSERT_THAT(Seen(machines), SizeIs(1));
  EXPECT_EQ(Seen(machines)[0].stage, control::Stage::kUnplaced);
  EXPECT_FALSE(Seen(machines)[0].started || Seen(machines)[0].ready);
  EXPECT_THAT(machines.Place(core::Members::Of({1, 2}), kStart), IsEmpty());
  EXPECT_THAT(machines.Place({}, kStart + seconds(9)), ElementsAre(1));
  EXPECT_TRUE(machines.running());
  EXPECT_EQ(Seen(machines)[0].started, kWall + seconds(9));
  EXPECT_THAT(machines.Place({}, kStart + seconds(9)), IsEmpty());
}

TEST(LocalMachines, AMachineThatWaitsForItsPlaceIsStoppedWithoutASignal) {
  LocalMachines machines({.wall = kWall, .boot = kStart});
  machines.Waits(1, 4, kStart);
  EXPECT_EQ(machines.Stop(StopOf(machines, 0, std::nullopt), kStart, kPatience).second,
            StopSignal::kNone);
  EXPECT_TRUE(machines.ForgetStopped());
  EXPECT_THAT(Seen(machines), IsEmpty());
}

TEST(LocalMachines, AnEndIsSeenUntilItWasDecidedOnAndTheAttemptWasStopped) {
  LocalMachines machines = TwoRun();
  machines.Ended(1, Exited(75));
  EXPECT_TRUE(machines.IsFree(1));
  EXPECT_FALSE(machines.IsFree(0));
  ASSERT_THAT(Seen(machines), SizeIs(2));
  EXPECT_EQ(Seen(machines)[1].end->exit_code, 75);
  EXPECT_TRUE(Seen(machines)[1].all_ended);
  machines.ForgetStopped();
  EXPECT_THAT(Seen(machines), SizeIs(2)) << "nobody has stopped it";
  machines.Stop(StopOf(machines, 1, 1), kStart, kPatience);
  machines.ForgetStopped();
  EXPECT_THAT(Seen(machines), SizeIs(1));
}

TEST(LocalMachines, AnAttemptThatWasReplacedIsKilledForItHoldsTheAddress) {
  LocalMachines machines = TwoRun();
  const auto [machine, signal] = machines.Stop(StopOf(machines, 1, 1), kStart, kPatience);
  EXPECT_EQ(machine, 1U);
  EXPECT_EQ(signal, StopSignal::kKill);
  EXPECT_FALSE(machines.IsFree(1)) << "until its end is seen";
  EXPECT_EQ(machines.Stop(StopOf(machines, 1, 1), kStart, kPatience).second, StopSignal::kNone);
  EXPECT_THAT(machines.Overdue(kStart + hours(1)), IsEmpty());
}

TEST(LocalMachines, WhoIsAskedToLeaveIsKilledOnceItsPatienceIsOver) {
  LocalMachines machines = TwoRun();
  EXPECT_EQ(machines.NextKill(), kNever);
  const StopMachine stop = StopOf(machines, 0, std::nullopt);
  EXPECT_EQ(machines.Stop(stop, kStart, kPatience).second, StopSignal::kTerminate);
  EXPECT_EQ(machines.Stop(stop, kStart, kPatience).second, StopSignal::kNone) << "asked once";
  EXPECT_EQ(Seen(machines)[0].leave_by, kWall + kPatience);
  EXPECT_EQ(machines.NextKill(), kStart + kPatience);
  EXPECT_THAT(machines.Overdue(kStart + kPatience - milliseconds(1)), IsEmpty());
  EXPECT_THAT(machines.Overdue(kStart + kPatience), ElementsAre(0));
  EXPECT_THAT(machines.Overdue(kStart + kPatience), IsEmpty()) << "killed once";
  EXPECT_EQ(machines.NextKill(), kNever);
}

TEST(LocalMachines, WhoLeavesInTimeIsNotKilled) {
  LocalMachines machines = TwoRun();
  machines.Stop(StopOf(machines, 0, std::nullopt), kStart, kPatience);
  machines.Ended(0, Exited(143));
  EXPECT_THAT(machines.Overdue(kStart + hours(1)), IsEmpty());
  EXPECT_TRUE(machines.running()) << "machine 1 does";
  machines.Ended(1, Exited(143));
  EXPECT_FALSE(machines.running());
}

}  // namespace
}  // namespace lockstep::cli::local_machines_test
