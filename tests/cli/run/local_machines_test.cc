#include "cli/run/local_machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "operator/policy/decide.h"
#include "operator/policy/policies.h"

namespace lockstep::cli {
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
  return machines.Observe({"127.0.0.1", "127.0.0.2"});
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
  EXPECT_EQ(seen[1].created, kWall + seconds(1));
  EXPECT_EQ(seen[1].started, kWall + seconds(1));
  EXPECT_FALSE(seen[1].over() || seen[1].leave_by);
  EXPECT_NE(seen[0].name, seen[1].name);
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

// What LocalOperator does with decisions, one after the other, less the processes.
class Life {
 public:
  explicit Life(int machines) {
    job_.metadata.uid = "uid";
    job_.spec.num_machines = machines;
    addresses_.assign(static_cast<size_t>(machines), "127.0.0.1");
    machines_.emplace(control::Now{.wall = kWall, .boot = kStart});
  }

  core::Spec& spec() { return job_.spec; }
  const core::JobStatus& status() const { return status_; }
  LocalMachines& machines() { return *machines_; }
  const std::vector<std::pair<uint32_t, StopSignal>>& signals() const { return signals_; }
  Time now = kStart;

  void DecideAll() {
    for (int i = 0; i < 30; ++i) {
      if (!DecideOnce()) return;
    }
    ADD_FAILURE() << "it decides and decides";
  }

 private:
  bool DecideOnce() {
    control::Snapshot snapshot;
    snapshot.job = &job_;
    snapshot.uid = "uid";
    snapshot.generation = 1;
    snapshot.status = status_;
    snapshot.machines = machines_->Observe(addresses_);
    snapshot.has_names = true;
    snapshot.coordinator_address = {"", "127.0.0.1", status_.attempts.Of(0)};
    snapshot.notes.key_made = true;
    snapshot.memory = memory_;
    snapshot.replacements_allowed = 10;
    control::Decision decision = control::Decide(snapshot, machines_->At(now));
    memory_ = decision.memory;
    const bool forgot = machines_->ForgetStopped();
    if (decision.intent) {
      status_ = *decision.intent;
      return true;
    }
    bool done = forgot || decision.status.has_value();
    if (decision.status) status_ = *decision.status;
    for (const control::Action& action : decision.actions) {
      if (const auto* start = std::get_if<control::StartMachine>(&action)) {
        if (!machines_->IsFree(start->machine)) continue;
        machines_->Started(start->machine, start->attempt, now);
        done = true;
      } else if (const auto* stop = std::get_if<StopMachine>(&action)) {
        const auto sent = machines_->Stop(*stop, now, kPatience);
        if (sent.second != StopSignal::kNone) signals_.push_back(sent);
        done |= sent.second != StopSignal::kNone;
      }
    }
    return done;
  }

  core::TrainingJob job_;
  std::vector<std::string> addresses_;
  std::optional<LocalMachines> machines_;
  core::JobStatus status_;
  control::Memory memory_;
  std::vector<std::pair<uint32_t, StopSignal>> signals_;
};

TEST(LocalLife, EveryMachineIsStartedAtOnceAndOneThatEndedIsStartedAgain) {
  Life life(3);
  life.DecideAll();
  EXPECT_THAT(life.machines().processes(), SizeIs(3));
  life.machines().Ended(1, Exited(75));
  life.DecideAll();
  EXPECT_FALSE(life.machines().IsFree(1));
  EXPECT_EQ(life.status().attempts.Of(1), 2U);
  EXPECT_EQ(life.status().attempts.Of(0), 1U);
  EXPECT_EQ(life.status().counters.replacements, 1U);
  EXPECT_THAT(life.signals(), IsEmpty());
}

TEST(LocalLife, OneThatEndsSoonAgainAndAgainWaitsAsOnACluster) {
  Life life(1);
  life.DecideAll();
  for (const Duration wait : {seconds(0), seconds(1), seconds(5), seconds(30)}) {
    life.now += milliseconds(100);
    life.machines().Ended(0, Exited(75));
    life.DecideAll();
    if (wait > Duration::zero()) {
      life.now += wait - milliseconds(1);
      life.DecideAll();
      EXPECT_TRUE(life.machines().IsFree(0)) << wait / seconds(1);
      life.now += milliseconds(1);
      life.DecideAll();
    }
    EXPECT_FALSE(life.machines().IsFree(0)) << wait / seconds(1);
  }
}

TEST(LocalLife, AStopWithoutACoordinatorTellsTheAgentsThemselvesAfterTwoSeconds) {
  Life life(2);
  life.DecideAll();
  life.spec().suspend = true;
  life.DecideAll();
  EXPECT_THAT(life.signals(), IsEmpty());
  life.now += seconds(2);
  life.DecideAll();
  EXPECT_THAT(life.signals(), ElementsAre(testing::Pair(0, StopSignal::kTerminate),
                                          testing::Pair(1, StopSignal::kTerminate)));
  EXPECT_NE(life.status().state, core::JobState::kSuspended);
  life.machines().Ended(0, Exited(143));
  life.machines().Ended(1, Exited(143));
  life.DecideAll();
  EXPECT_EQ(life.status().state, core::JobState::kSuspended);
  EXPECT_EQ(life.status().counters.replacements, 0U);
}

TEST(LocalLife, TheActiveDeadlineFailsTheJob) {
  Life life(1);
  life.spec().active_deadline_seconds = 60;
  life.DecideAll();
  life.now += seconds(59);
  life.DecideAll();
  EXPECT_FALSE(control::IsFinished(life.status()));
  life.now += seconds(3);
  life.DecideAll();
  life.now += seconds(2);
  life.DecideAll();
  EXPECT_EQ(life.status().state, core::JobState::kFailed);
  EXPECT_THAT(life.signals(), ElementsAre(testing::Pair(0, StopSignal::kTerminate)));
}

TEST(LocalLife, AnAgentThatCannotBeConfiguredFailsTheJobAtOnce) {
  Life life(2);
  life.DecideAll();
  MachineEnd end = Exited(78);
  end.termination = "the key file is empty";
  life.machines().Ended(1, end);
  life.DecideAll();
  EXPECT_EQ(life.status().state, core::JobState::kFailed);
  EXPECT_THAT(life.status().reason, testing::HasSubstr("the key file is empty"));
  EXPECT_THAT(life.signals(), ElementsAre(testing::Pair(0, StopSignal::kTerminate)));
}

}  // namespace
}  // namespace lockstep::cli
