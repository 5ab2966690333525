#include "cli/cluster/job_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

WallTime At(const std::string& time) { return *ParseWallTime("2026-11-21T" + time + "Z"); }

StoredJob MakeJob() {
  StoredJob job;
  job.meta.name = "gpt";
  job.meta.name_space = "research";
  job.meta.created = At("08:00:00");
  job.job.metadata.name = "gpt";
  job.job.spec.num_machines = 3;
  job.job.spec.processes_per_machine = 8;
  return job;
}

core::MachineStatus Machine(int index, core::MachineState state, const std::string& node) {
  return {.index = index,
          .pod = "gpt-" + std::to_string(index),
          .node = node,
          .state = state,
          .replacements = 0,
          .binding = "Node"};
}

// A job that has lost a rank once and is about to lose a machine.
StoredJob MakeBusyJob() {
  StoredJob job = MakeJob();
  core::JobStatus& status = job.status;
  status.state = core::JobState::kRestarting;
  status.reason = "machine 1 is lost: silent for 15 s";
  status.ready = "2/3";
  status.progress_text = "1200/5000 24% eta 1h10m";
  status.replicas = 3;
  status.epoch = 1;
  status.gang_generation = {1, 2};
  status.machines.desired = 3;
  status.machines.ready = 2;
  status.machines.by_state = {{core::MachineState::kLost, 1}, {core::MachineState::kStopped, 2}};
  status.machine_statuses = {Machine(1, core::MachineState::kLost, "node-b"),
                             Machine(0, core::MachineState::kStopped, "node-a"),
                             Machine(2, core::MachineState::kStopped, "node-c")};
  status.machine_statuses[0].replacements = 1;
  status.restarts = {.total = 1, .application = 1, .infrastructure = 0, .stopped = 0};
  status.counters.process_failures = 1;
  status.progress = core::JobProgress{
      .step = 1200, .total_steps = 5000, .percent = 24, .metrics = {{"loss", "2.31"}}};
  status.timings.created = At("08:00:00");
  status.timings.scheduled = At("08:00:00.250");
  status.timings.started = At("08:00:02");
  status.timings.first_step = At("08:00:12");
  core::LastFailure last;
  last.time = At("08:10:00");
  last.generation = {1, 1};
  last.node = "node-b";
  last.failure.cause = core::Cause::kProcessExit;
  last.failure.machine = 1;
  last.failure.rank = 9;
  last.failure.exit_code = 3;
  last.failure.message = "rank 9 on machine 1 exited with code 3";
  last.failure.stderr_tail = "Traceback (most recent call last):\nRuntimeError: \x1b[2Jboom";
  status.last_failure = last;
  core::RestartRecord record;
  record.generation = {1, 1};
  record.cause = core::Cause::kProcessExit;
  record.machine = 1;
  record.detected = At("08:10:00");
  record.respawned = At("08:10:00.006");
  record.first_step = At("08:10:08");
  record.lost_steps = 40;
  status.history = {record};
  return job;
}

TEST(JobTextTest, StatusEndsWithTheLedger) {
  StoredJob job = MakeBusyJob();
  core::Ledger& ledger = job.status.ledger.emplace();
  ledger.elapsed_milliseconds = 60'000;
  ledger.sums.activities = {{core::Activity::kProductive, 171'000},
                            {core::Activity::kWarmStartUp, 9'000}};
  ledger.sums.lost_to = {{core::Cause::kProcessExit, 9'000}};
  ledger.goodput = "95.0%";
  const std::string text = StatusText(job, At("09:00:12"));
  EXPECT_TRUE(
      text.ends_with("\n\n  machine time 3m00s, 95.0% productive; lost: warm start-up 9.0 s\n"
                     "  lost to: ProcessExit 9.0 s; a failure every 1m00s (1 in 1m00s)\n"))
      << text;
}

TEST(JobTextTest, StatusShowsMachinesPhasesFailureAndRestarts) {
  EXPECT_EQ(StatusText(MakeBusyJob(), At("09:00:12")),
            "trainingjob gpt in namespace research\n"
            "  State        Restarting\n"
            "  Reason       machine 1 is lost: silent for 15 s\n"
            "  Size         3 machines x 8 processes = world size 24\n"
            "  Ready        2/3 (1 Lost, 2 Stopped)\n"
            "  Progress     1200/5000 24% eta 1h10m, loss 2.31\n"
            "  Generation   1-2\n"
            "  Restarts     1 (1 application, 0 infrastructure, 0 stopped)\n"
            "  Budget used  1 of 3 restarts, 0 of 10 machine replacements\n"
            "  Age          1h00m\n"
            "\n"
            "  PHASE       AT                    AFTER\n"
            "  created     2026-11-21T08:00:00Z  -\n"
            "  scheduled   2026-11-21T08:00:00Z  250 ms\n"
            "  started     2026-11-21T08:00:02Z  1.8 s\n"
            "  first step  2026-11-21T08:00:12Z  10.0 s\n"
            "  now         2026-11-21T09:00:12Z  1h00m\n"
            "\n"
            "  MACHINE  RANKS  STATE    POD    NODE    REPLACED  BINDING\n"
            "  0        0-7    Stopped  gpt-0  node-a  0         Node\n"
            "  1        8-15   Lost     gpt-1  node-b  1         Node\n"
            "  2        16-23  Stopped  gpt-2  node-c  0         Node\n"
            "\n"
            "  LAST FAILURE  ProcessExit at 2026-11-21T08:10:00Z, generation 1-1, node node-b\n"
            "  rank 9 on machine 1 exited with code 3\n"
            "  | Traceback (most recent call last):\n"
            "  | RuntimeError: \xEF\xBF\xBD[2Jboom\n"
            "\n"
            "  ENDED  CAUSE        MACHINE  DETECTED              RESPAWNED     FIRST STEP   LOST "
            "STEPS\n"
            "  1-1    ProcessExit  1        2026-11-21T08:10:00Z  after 6.0 ms  after 8.0 s  40\n");
}

TEST(JobTextTest, TheFailureThatEndedAJobIsNotOfItsBudget) {
  StoredJob job = MakeJob();
  job.job.spec.failure_policy.max_restarts = 0;
  job.status.counters = {.generations = 1, .process_failures = 1};
  const std::string text = StatusText(job, At("08:00:07"));
  EXPECT_NE(text.find("Budget used  0 of 0 restarts,"), std::string::npos) << text;
}

TEST(JobTextTest, AJobThatNobodyHasSeenYetHasNothingButItsSizeAndAge) {
  EXPECT_EQ(StatusText(MakeJob(), At("08:00:07")),
            "trainingjob gpt in namespace research\n"
            "  State        Pending\n"
            "  Size         3 machines x 8 processes = world size 24\n"
            "  Ready        -\n"
            "  Progress     -\n"
            "  Generation   -\n"
            "  Restarts     0\n"
            "  Budget used  0 of 3 restarts, 0 of 10 machine replacements\n"
            "  Age          7 s\n"
            "\n"
            "  PHASE    AT                    AFTER\n"
            "  created  2026-11-21T08:00:00Z  -\n"
            "  now      2026-11-21T08:00:07Z  7.0 s\n");
}

TEST(JobTextTest, AFinishedJobShowsItsVerdictAndNoNow) {
  StoredJob job = MakeJob();
  job.status.state = core::JobState::kFailed;
  job.status.timings.finished = At("08:01:00");
  job.status.verdict = core::JobVerdict{{1, 1}, 70, core::Cause::kRestartsExhausted};
  const std::string text = StatusText(job, At("12:00:00"));
  EXPECT_THAT(text, HasSubstr("  Verdict      exit code 70, RestartsExhausted\n"));
  EXPECT_THAT(text, HasSubstr("  finished  2026-11-21T08:01:00Z  1m00s\n"));
  EXPECT_THAT(text, Not(HasSubstr("  now ")));
}

TEST(JobTextTest, AJobThatIsBeingScaledShowsBothSizes) {
  StoredJob job = MakeJob();
  job.status.replicas = 2;
  EXPECT_THAT(StatusText(job, At("08:00:07")),
              HasSubstr("2 machines x 8 processes = world size 16, on its way to 3\n"));
}

TEST(JobTextTest, MachinesThatStatusLeavesOutAreCounted) {
  StoredJob job = MakeBusyJob();
  job.status.machines.desired = 1024;
  EXPECT_THAT(StatusText(job, At("09:00:00")),
              HasSubstr("  and 1021 machines in no worse state\n"));
}

TEST(JobTextTest, RanksAreOfTheMachinesThatTakePart) {
  StoredJob job = MakeBusyJob();
  job.status.elastic = core::ElasticStatus{.members = *core::Members::Parse("0,2")};
  const std::string text = StatusText(job, At("09:00:12"));
  EXPECT_THAT(text, HasSubstr("  1        -      Lost     gpt-1"));
  EXPECT_THAT(text, HasSubstr("  2        8-15   Stopped  gpt-2"));
}

TEST(JobTextTest, AListHasOneLineAJob) {
  EXPECT_EQ(ListText({MakeJob(), MakeBusyJob()}, {}, At("08:05:00")),
            "NAME  STATE       READY  PROCESSES  RESTARTS  PROGRESS                 AGE\n"
            "gpt   Pending     -      24         0         -                        5m00s\n"
            "gpt   Restarting  2/3    24         1         1200/5000 24% eta 1h10m  5m00s\n");
  EXPECT_EQ(
      ListText({MakeBusyJob()}, {.name_space = true, .wide = true}, At("08:05:00")),
      "NAMESPACE  NAME  STATE       READY  PROCESSES  RESTARTS  PROGRESS                 AGE    "
      "GENERATION  REASON\n"
      "research   gpt   Restarting  2/3    24         1         1200/5000 24% eta 1h10m  5m00s  "
      "1-2         machine 1 is lost: silent for 15 s\n");
}

TEST(JobTextTest, ALineTellsWhatAWatchIsFor) {
  EXPECT_EQ(StatusLine(MakeJob()), "gpt  Pending");
  EXPECT_EQ(StatusLine(MakeBusyJob()),
            "gpt  Restarting  2/3 ready  generation 1-2  restarts 1  1200/5000 24% eta 1h10m  "
            "(machine 1 is lost: silent for 15 s)");
}

TEST(JobTextTest, NothingThatACLusterSaysMovesTheCursorOrAddsALine) {
  StoredJob job = MakeJob();
  job.status.reason = "two\nlines \x1b[31mred";
  EXPECT_THAT(StatusText(job, At("08:00:00")),
              HasSubstr("  Reason       two lines \xEF\xBF\xBD[31mred\n"));
}

}  // namespace
}  // namespace lockstep::cli
