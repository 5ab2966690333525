#include "cli/run/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

TableView MakeView(uint32_t machines) {
  TableView view;
  view.job = "gpt";
  view.state = "Running";
  view.generation = "1-2";
  view.restarts = 1;
  view.elapsed = seconds(48);
  core::GangProgress progress;
  progress.step = 120;
  progress.total_steps = 1000;
  progress.loss = 2.3125;
  progress.tokens_per_second = 81600;
  view.progress = progress;
  view.steps_per_second = 2.5;
  view.remaining = seconds(352);
  for (uint32_t m = 0; m < machines; ++m) {
    TableRow row;
    row.machine = m;
    row.first_rank = 4 * m;
    row.last_rank = 4 * m + 3;
    row.state = "Running";
    row.progress = progress;
    view.rows.push_back(row);
  }
  return view;
}

TEST(TableTest, OneLineForTheJobAndOneForEachMachine) {
  EXPECT_THAT(
      RenderTable(MakeView(2), {120, 40}, false),
      ElementsAre("gpt  Running  generation 1-2  restarts 1  step 120/1000 12%  loss 2.312  "
                  "2.50 steps/s  eta 5m52s  up 48.0 s",
                  "  MACHINE RANKS STATE   STEP     LOSS  TOKENS/S",
                  "  0       0-3   Running 120/1000 2.312 81.6k",
                  "  1       4-7   Running 120/1000 2.312 81.6k"));
}

TEST(TableTest, NoLineIsWiderThanTheTerminal) {
  for (int columns : {1, 3, 10, 40, 80}) {
    EXPECT_THAT(RenderTable(MakeView(3), {columns, 40}, false),
                Each(SizeIs(::testing::Le(static_cast<size_t>(columns)))));
  }
}

TEST(TableTest, ASmallTerminalShowsMachinesThatAreNotWellFirst) {
  TableView view = MakeView(100);
  view.rows[70].state = "Lost";
  std::vector<std::string> lines = RenderTable(view, {80, 24}, false);
  EXPECT_THAT(lines, SizeIs(::testing::Le(12u)));
  EXPECT_THAT(lines, Contains(StartsWith("  70 ")));
  EXPECT_THAT(lines.back(), HasSubstr("and 92 machines more"));
}

TEST(TableTest, WithoutColorThereIsNoEscape) {
  EXPECT_THAT(RenderTable(MakeView(2), {80, 24}, false), Each(Not(HasSubstr("\x1b"))));
  EXPECT_THAT(RenderTable(MakeView(2), {80, 24}, true), Each(HasSubstr("\x1b")));
}

TEST(TableTest, WhatIsNotKnownIsADash) {
  TableView view;
  view.job = "gpt";
  view.state = "Starting";
  view.reason = "waiting for machines 0 of 1\n";
  view.rows.resize(1);
  view.rows[0].state = "Starting";
  EXPECT_THAT(RenderTable(view, {80, 24}, false),
              ElementsAre("gpt  Starting  restarts 0  up 0.0 ms", "  waiting for machines 0 of 1?",
                          "  MACHINE RANKS STATE    STEP LOSS TOKENS/S",
                          "  0       0     Starting -    -    -"));
}

}  // namespace
}  // namespace lockstep::cli
