#include "cli/cluster/page/stored_gang.h"

#include <gtest/gtest.h>

#include "base/text/json.h"

namespace lockstep::cli::stored_gang_test {
namespace {

constexpr WallTime kCreated{hours(24 * 365 * 50)};
constexpr Time kNow = hours(1);  // when the job is 100 s old
const DocumentClock kClock(kNow, kCreated + seconds(100));

WallTime After(int64_t s) { return kCreated + seconds(s); }
Time On(int64_t s) { return kNow - seconds(100) + seconds(s); }

core::RestartRecord Ended(uint32_t n, int64_t at) {
  core::RestartRecord record;
  record.generation = {1, n};
  record.cause = core::Cause::kMachineLost;
  record.machine = 3;
  record.detected = After(at);
  record.respawned = After(at + 2);
  record.first_step = After(at + 5);
  return record;
}

core::JobStatus OnceRestarted() {
  core::JobStatus status;
  status.state = core::JobState::kRunning;
  status.gang_generation = {1, 2};
  status.counters.generations = 2;
  status.timings.started = After(10);
  status.timings.first_step = After(12);
  status.history = {Ended(1, 40)};
  status.progress = core::JobProgress{.step = 70};
  return status;
}

TEST(StoredGenerationsTest, BeginAndEndWhereHistoryAndTimingsSaySo) {
  const auto generations = StoredGenerations(OnceRestarted(), kClock);
  ASSERT_EQ(generations.size(), 2U);
  EXPECT_EQ(generations[0].spawned, On(10));
  EXPECT_EQ(generations[0].first_step, On(12));
  EXPECT_EQ(generations[0].ended, On(40));
  EXPECT_EQ(generations[0].failure.message, "MachineLost on machine 3");
  EXPECT_EQ(generations[1].spawned, On(42));
  EXPECT_EQ(generations[1].first_step, On(45));
  EXPECT_EQ(generations[1].last_step, 70);
  EXPECT_FALSE(generations[1].ended);
}

TEST(StoredGenerationsTest, TheLastFailureSaysMoreOfItsGeneration) {
  core::JobStatus status = OnceRestarted();
  status.last_failure = core::LastFailure();
  status.last_failure->generation = {1, 1};
  status.last_failure->failure.cause = core::Cause::kMachineLost;
  status.last_failure->failure.message = "machine 3 fell silent";
  EXPECT_EQ(StoredGenerations(status, kClock)[0].failure.message, "machine 3 fell silent");
}

TEST(StoredGenerationsTest, AStopOnRequestIsNoFailure) {
  core::JobStatus status = OnceRestarted();
  status.history[0].cause = core::Cause::kStopRequested;
  const auto generations = StoredGenerations(status, kClock);
  EXPECT_EQ(generations[0].failure.cause, core::Cause::kNone);
  EXPECT_EQ(generations[0].stop_sent, On(40));
  EXPECT_FALSE(generations[0].died);
}

TEST(StoredGenerationsTest, TheBeginningOfAnOlderGenerationIsNotMadeUp) {
  core::JobStatus status = OnceRestarted();
  status.counters.generations = 30;
  const auto generations = StoredGenerations(status, kClock);
  EXPECT_FALSE(generations[0].spawned);
  EXPECT_EQ(generations[1].spawned, On(42));
}

TEST(StoredGenerationsTest, AFailedJobsLastGenerationEndsWithItsFailure) {
  core::JobStatus status = OnceRestarted();
  status.state = core::JobState::kFailed;
  status.verdict =
      core::JobVerdict{.generation = {1, 2}, .exit_code = 70, .cause = core::Cause::kHang};
  status.timings.finished = After(90);
  const auto generations = StoredGenerations(status, kClock);
  EXPECT_EQ(generations[1].ended, On(90));
  EXPECT_EQ(generations[1].failure.cause, core::Cause::kHang);
}

TEST(StoredGenerationsTest, AJobWithoutAGangHasNone) {
  EXPECT_TRUE(StoredGenerations(core::JobStatus(), kClock).empty());
}

TEST(MergeTest, WhatMachine0SaysIsTakenAndItsEndFromTheStatus) {
  std::vector<GenerationEntry> told(2);
  told[0].generation = {1, 1};
  told[0].announced = On(9);
  told[0].spawned = On(10);
  told[1].generation = {4, 1};
  const auto merged = Merge(StoredGenerations(OnceRestarted(), kClock), told);
  ASSERT_EQ(merged.size(), 3U);
  EXPECT_EQ(merged[0].announced, On(9));
  EXPECT_EQ(merged[0].ended, On(40));  // machine 0 was lost, and said nothing of it
  EXPECT_EQ(merged[0].failure.cause, core::Cause::kMachineLost);
  EXPECT_EQ(merged[1].generation, (core::Generation{1, 2}));
  EXPECT_EQ(merged[2].generation, (core::Generation{4, 1}));
}

TEST(DocumentClockTest, WhatIsWrittenHasHappened) {
  DocumentClock clock = kClock;
  clock.Saw(After(90), kNow);
  EXPECT_EQ(clock.At(After(90)), On(90));
  clock.Saw(After(130), kNow);  // the server's clock is 30 s ahead
  EXPECT_EQ(clock.At(After(130)), kNow);
  EXPECT_EQ(clock.At(After(90)), kNow - seconds(40));
}

core::MachineStatus Machine(int index, core::MachineState state) {
  core::MachineStatus machine;
  machine.index = index;
  machine.state = state;
  machine.node = "node-" + std::to_string(index);
  return machine;
}

TEST(StoredMachinesTest, MachinesThatAreNotListedHaveTheStateThatIsLeft) {
  core::JobStatus status;
  status.machine_statuses = {Machine(2, core::MachineState::kLost)};
  status.machine_statuses[0].replacements = 2;
  status.machines.by_state = {{core::MachineState::kLost, 1}, {core::MachineState::kRunning, 3}};
  status.attempts.Reset(4, 1);
  status.attempts.Set(2, 5);
  const OrderedJson machines = ParseOrderedJson(StoredMachines(status, 4));
  EXPECT_EQ(machines["state"], OrderedJson({"Running", "Running", "Lost", "Running"}));
  EXPECT_EQ(machines["attempt"], OrderedJson({1, 1, 5, 1}));
  EXPECT_EQ(machines["note"][2], "replaced 2 times");
  EXPECT_EQ(StoredNodes(status, 4), (std::vector<std::string>{"", "", "node-2", ""}));
}

TEST(StoredMachinesTest, AStateThatIsNotKnownIsNotMadeUp) {
  core::JobStatus status;
  status.machine_statuses = {Machine(0, core::MachineState::kLost),
                             Machine(99, core::MachineState::kLost)};
  status.machines.by_state = {{core::MachineState::kLost, 2},
                              {core::MachineState::kIdle, 1},
                              {core::MachineState::kRunning, 1}};
  const OrderedJson machines = ParseOrderedJson(StoredMachines(status, 3));
  EXPECT_EQ(machines["state"], OrderedJson({"Lost", "NotListed", "NotListed"}));
}

}  // namespace
}  // namespace lockstep::cli::stored_gang_test
