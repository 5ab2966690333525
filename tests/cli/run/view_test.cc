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
Shown Seen() {
  Shown shown;
  shown.machines = {{.attempt = 1, .running = true, .replaced = false},
                    {.attempt = 2, .running = true, .replaced = true}};
  core::GangStatus& status = shown.gang.emplace();
  status.phase = core::CoordinatorPhase::kRunning;
  status.reason = "a restart";
  status.machines.resize(2);
  status.machines[0].attempt = status.machines[1].attempt = 1;
  status.machines[0].state = core::GangMachineState::kRunning;
  status.machines[1].index = 1;
  status.machines[1].state = core::GangMachineState::kLost;
  return shown;
}

TableView View(const Shown& shown) { return ViewOf(Job(), shown, {}, {}, seconds(7)); }

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
  Shown shown = Seen();
  EXPECT_EQ(View(shown).state, "Running");
  shown.stopping = true;
  EXPECT_EQ(View(shown).state, "Stopping");
}

TEST(ViewTest, AReasonIsShownWhileTheGangDoesNotRun) {
  Shown shown = Seen();
  EXPECT_EQ(View(shown).reason, "");
  EXPECT_EQ(WaitingFor(shown.gang), "");
  shown.gang->phase = core::CoordinatorPhase::kBackoff;
  EXPECT_EQ(View(shown).reason, "a restart");
  EXPECT_EQ(WaitingFor(shown.gang), "a restart");
}

TEST(ViewTest, TheLastLineSaysWhatFailedAndWhyThatWasTheEnd) {
  Outcome outcome;
  outcome.reason = "rank 3 on machine 0 exited with code 1; maxRestarts is 0";
  EXPECT_EQ(ClosingLine(Job(), outcome, {}, seconds(90)),
            "job gpt failed: rank 3 on machine 0 exited with code 1; maxRestarts is 0 "
            "(0 generations, 1m30s)");
  outcome.state = core::JobState::kSucceeded;
  EXPECT_EQ(ClosingLine(Job(), outcome, {}, milliseconds(600)),
            "job gpt succeeded (0 generations, 600 ms)");
}

}  // namespace
}  // namespace lockstep::cli
