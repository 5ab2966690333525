#include "cli/run/output/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Of machines with four ranks each, that run.
class Shown {
 public:
  explicit Shown(int machines) {
    job_.metadata.name = "gpt";
    job_.spec.num_machines = machines;
    job_.spec.processes_per_machine = 4;
    status.state = core::JobState::kRunning;
    status.gang_generation = {1, 2};
    status.restarts.total = 1;
    status.machines.desired = machines;
    for (int m = 0; m < machines; ++m) {
      status.machine_statuses.push_back({.index = m, .state = core::MachineState::kRunning});
    }
  }

  // Every rank says its step.
  void Progress(int64_t step) {
    const int ranks = 4 * job_.spec.num_machines;
    progress_.clear();
    for (int rank = 0; rank < ranks; ++rank) {
      core::RankProgress& each = progress_.emplace_back();
      each.rank = static_cast<uint32_t>(rank);
      each.step = step;
      each.total_steps = 1000;
      each.loss = 2.3125;
      each.tokens_per_second = 20400;
      each.known.teraflops = teraflops;
      each.known.mfu = mfu;
      if (accuracy >= 0) each.figures = {{"accuracy", accuracy}};
    }
    rate_.Update(seconds(2 * ++told_), *core::Summarize(progress_));
  }

  std::vector<std::string> Lines(TerminalSize size, bool color = false) const {
    return RenderTable({job_, status, progress_, rate_, seconds(48), {}, wide, usage, show}, size,
                       color);
  }

  core::JobStatus status;
  bool wide = false;
  std::map<int32_t, core::Usage> usage;
  std::vector<std::string> show;
  double accuracy = -1;  // of each rank; below 0: not said
  double teraflops = 0;  // of each rank; 0: not said
  double mfu = 0;

 private:
  core::TrainingJob job_;
  std::vector<core::RankProgress> progress_;
  core::RateMeter rate_;
  int told_ = 0;
};

TEST(TableTest, OneLineForTheJobAndOneForEachMachine) {
  Shown shown(2);
  shown.Progress(115);
  shown.Progress(120);
  EXPECT_THAT(
      shown.Lines({120, 40}),
      ElementsAre("gpt  Running  generation 1-2  restarts 1  step 120/1000 12%  loss 2.312  "
                  "2.50 steps/s  eta 5m52s  up 48.0 s",
                  "  MACHINE RANKS STATE   STEP     LOSS  TOKENS/S",
                  "  0       0-3   Running 120/1000 2.312 81.6k",
                  "  1       4-7   Running 120/1000 2.312 81.6k"));
}

TEST(TableTest, FlopsHaveAColumnWhereProgramsTellThem) {
  Shown shown(2);
  shown.teraflops = 31.25;
  shown.Progress(120);
  EXPECT_THAT(shown.Lines({120, 40}),
              ElementsAre(StartsWith("gpt  Running"),
                          "  MACHINE RANKS STATE   STEP     LOSS  TOKENS/S TFLOP/S",
                          "  0       0-3   Running 120/1000 2.312 81.6k    125",
                          "  1       4-7   Running 120/1000 2.312 81.6k    125"));
  shown.mfu = 0.381;
  shown.Progress(130);
  EXPECT_THAT(shown.Lines({120, 40}),
              Contains("  0       0-3   Running 130/1000 2.312 81.6k    125     38.1%"));
}

TEST(TableTest, AFigureThatIsAskedForHasAColumnAndAPlaceInTheFirstLine) {
  Shown shown(2);
  shown.show = {"accuracy", "reward"};
  shown.accuracy = 0.875;
  shown.Progress(120);
  EXPECT_THAT(shown.Lines({160, 40}),
              ElementsAre(HasSubstr("loss 2.312  accuracy 0.875  reward -  "),
                          "  MACHINE RANKS STATE   STEP     LOSS  TOKENS/S ACCURACY REWARD",
                          "  0       0-3   Running 120/1000 2.312 81.6k    0.875    -",
                          "  1       4-7   Running 120/1000 2.312 81.6k    0.875    -"));
}

TEST(TableTest, AWideTableHasWhatMachinesUse) {
  Shown shown(2);
  shown.wide = true;
  shown.usage[1] = {1500, 3 << 20, 2000, 0};
  EXPECT_THAT(shown.Lines({160, 40}),
              ElementsAre(StartsWith("gpt  Running"),
                          "  MACHINE RANKS STATE   STEP LOSS TOKENS/S CPU MEMORY RECEIVED SENT",
                          "  0       0-3   Running -    -    -        -   -      -        -",
                          "  1       4-7   Running -    -    -        1.5 3 MiB  2 kB/s   0 B/s"));
}

TEST(TableTest, AMachineThatWasReplacedSaysWhichAttemptItIs) {
  Shown shown(2);
  shown.status.attempts.Set(1, 3);
  shown.status.machine_statuses[1].replacements = 1;
  EXPECT_THAT(shown.Lines({80, 24}),
              Contains(HasSubstr("4-7   Running -    -    -        attempt 3")));
}

TEST(TableTest, AMachineOnAnotherNodeNamesIt) {
  Shown shown(2);
  shown.status.attempts.Set(1, 3);
  shown.status.machine_statuses[0].node = "n1";
  shown.status.machine_statuses[1].node = "n2";
  shown.status.machine_statuses[1].replacements = 1;
  EXPECT_THAT(shown.Lines({80, 24}), Contains(EndsWith(" n1")));
  EXPECT_THAT(shown.Lines({80, 24}), Contains(EndsWith(" n2, attempt 3")));
}

TEST(TableTest, NoLineIsWiderThanTheTerminal) {
  Shown shown(3);
  shown.Progress(120);
  for (int columns : {1, 3, 10, 40, 80}) {
    EXPECT_THAT(shown.Lines({columns, 40}),
                Each(SizeIs(::testing::Le(static_cast<size_t>(columns)))));
  }
}

TEST(TableTest, ASmallTerminalShowsMachinesThatAreNotWellFirst) {
  Shown shown(100);
  shown.status.machine_statuses[70].state = core::MachineState::kLost;
  core::Trim(shown.status);
  const std::vector<std::string> lines = shown.Lines({80, 24});
  EXPECT_THAT(lines, SizeIs(::testing::Le(12u)));
  EXPECT_THAT(lines, Contains(StartsWith("  70 ")));
  EXPECT_THAT(lines.back(), HasSubstr("and 92 machines more"));
}

TEST(TableTest, WithoutColorThereIsNoEscape) {
  EXPECT_THAT(Shown(2).Lines({80, 24}), Each(Not(HasSubstr("\x1b"))));
  EXPECT_THAT(Shown(2).Lines({80, 24}, true), Each(HasSubstr("\x1b")));
}

TEST(TableTest, WhatIsNotKnownIsADash) {
  Shown shown(1);
  shown.status.state = core::JobState::kStarting;
  shown.status.gang_generation = {};
  shown.status.restarts.total = 0;
  shown.status.reason = "waiting for machines 0 of 1\n";
  shown.status.machine_statuses[0].state = core::MachineState::kStarting;
  EXPECT_THAT(shown.Lines({80, 24}),
              ElementsAre("gpt  Starting  restarts 0  up 48.0 s", "  waiting for machines 0 of 1?",
                          "  MACHINE RANKS STATE    STEP LOSS TOKENS/S",
                          "  0       0-3   Starting -    -    -"));
}

TEST(Table, SaysWhatPreflightMeasuredAndWhichMachinesWereSlow) {
  Shown shown(2);
  EXPECT_THAT(shown.Lines({120, 40}), Each(Not(HasSubstr("preflight"))));
  shown.status.preflight =
      core::PreflightStatus{core::PreflightState::kSlow,
                            "link 5 GB/s",
                            {{1, 1, "link 0.1 GB/s", true}, {1, 2, "link 0.2 GB/s", false}}};
  const std::vector<std::string> lines = shown.Lines({200, 40});
  EXPECT_THAT(lines, Contains("  preflight: the job continues with slow machines; medians link 5 "
                              "GB/s"));
  EXPECT_THAT(lines, Contains("    machine 1, attempt 1, was slow and replaced: link 0.1 GB/s"));
  EXPECT_THAT(lines, Contains("    machine 1, attempt 2, is slow: link 0.2 GB/s"));
}

TEST(Table, SaysHowManyInterpretersWaitAndWhatTheyWereWorth) {
  Shown shown(2);
  EXPECT_THAT(shown.Lines({120, 40}), Each(Not(HasSubstr("interpreters"))));
  shown.status.processes = 8;
  shown.status.prestart = core::PrestartStatus{.ready = 3,
                                               .reason = "machine 1: bash is not Python",
                                               .warm = 2,
                                               .cold = 1,
                                               .saved_milliseconds = 3400};
  EXPECT_THAT(shown.Lines({200, 40}),
              Contains("  parked interpreters: 3 of 8 ready (machine 1: bash is not Python); "
                       "generations begun: 2 warm, 1 cold; 3.4 s of imports saved"));
  shown.status.state = core::JobState::kSucceeded;
  EXPECT_THAT(shown.Lines({200, 40}),
              Contains("  parked interpreters: generations begun: 2 warm, 1 cold; 3.4 s of imports "
                       "saved"));
}

}  // namespace
}  // namespace lockstep::cli
