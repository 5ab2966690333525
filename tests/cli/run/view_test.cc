#include "cli/run/view.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

core::TrainingJob Job() {
  core::TrainingJob job;
  job.metadata.name = "gpt";
  job.spec.num_machines = 2;
  job.spec.processes_per_machine = 4;
  return job;
}

// Machine 0 is at its first attempt; machine 1 was lost and has come back.
Snapshot Seen() {
  Snapshot snapshot;
  snapshot.machines.resize(2);
  snapshot.machines[0].attempt = 1;
  snapshot.machines[1].attempt = 2;
  snapshot.machines[1].starts = 2;
  for (Machine& machine : snapshot.machines) machine.running = true;
  core::GangStatus& status = snapshot.coordinator.emplace();
  status.phase = core::CoordinatorPhase::kRunning;
  status.reason = "a restart";
  status.machines.resize(2);
  status.machines[0].attempt = status.machines[1].attempt = 1;
  status.machines[0].state = core::GangMachineState::kRunning;
  status.machines[1].index = 1;
  status.machines[1].state = core::GangMachineState::kLost;
  return snapshot;
}

TableView View(const Snapshot& snapshot) { return ViewOf(Job(), snapshot, {}, {}, seconds(7)); }

TEST(ViewTest, AMachinesStateIsThatOfItsCurrentAttempt) {
  TableView view = View(Seen());
  ASSERT_EQ(view.rows.size(), 2U);
  EXPECT_EQ(view.rows[0].state, "Running");
  EXPECT_EQ(view.rows[0].note, "");
  EXPECT_EQ(view.rows[1].state, "Starting") << "what is said of attempt 1 is old";
  EXPECT_EQ(view.rows[1].note, "attempt 2");
  EXPECT_EQ(view.rows[1].first_rank, 4);
  EXPECT_EQ(view.rows[1].last_rank, 7);
}

TEST(ViewTest, AJobThatIsAskedToStopIsStopping) {
  Snapshot snapshot = Seen();
  EXPECT_EQ(View(snapshot).state, "Running");
  snapshot.stop = StopWish{};
  EXPECT_EQ(View(snapshot).state, "Stopping");
}

TEST(ViewTest, AReasonIsShownWhileTheGangDoesNotRun) {
  Snapshot snapshot = Seen();
  EXPECT_EQ(View(snapshot).reason, "");
  EXPECT_EQ(WaitingFor(snapshot), "");
  snapshot.coordinator->phase = core::CoordinatorPhase::kBackoff;
  EXPECT_EQ(View(snapshot).reason, "a restart");
  EXPECT_EQ(WaitingFor(snapshot), "a restart");
}

TEST(ViewTest, TheLastLineSaysWhatFailedAndWhyThatWasTheEnd) {
  Outcome outcome;
  outcome.failure.message = "rank 3 on machine 0 exited with code 1";
  outcome.reason = "maxRestarts is 0";
  EXPECT_EQ(ClosingLine(Job(), outcome, {}, seconds(90)),
            "job gpt failed: rank 3 on machine 0 exited with code 1; maxRestarts is 0 "
            "(0 generations, 1m30s)");
  outcome.state = JobState::kSucceeded;
  EXPECT_EQ(ClosingLine(Job(), outcome, {}, milliseconds(600)),
            "job gpt succeeded (0 generations, 600 ms)");
}

}  // namespace
}  // namespace lockstep::cli
