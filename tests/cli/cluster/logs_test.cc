// Which lines, of which pod.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/cluster/log_choice.h"
#include "cli/log_lines.h"

namespace lockstep::cli::logs_test {
namespace {

using ::testing::HasSubstr;
using Kind = kube::ContainerState::Kind;

core::Spec SpecOf(core::LogFormat format) {
  core::Spec spec;
  spec.num_machines = 2;
  spec.processes_per_machine = 4;
  spec.logs.format = format;
  return spec;
}

TEST(LogFilterTest, PrefixedLinesBelongToTheRankThatTheirPrefixNames) {
  const LogFilter filter(SpecOf(core::LogFormat::kPrefix), 3);
  EXPECT_TRUE(filter.Passes("[m0 r3] loss 2.3"));
  EXPECT_TRUE(filter.Passes("[m0 r3] "));
  EXPECT_FALSE(filter.Passes("[m0 r31] loss 2.3"));
  EXPECT_FALSE(filter.Passes("[m0 r2] [m0 r3] quoted"));
  EXPECT_FALSE(filter.Passes("lockstep-agent[m0.1]: joined"));
  EXPECT_FALSE(filter.Passes("[m0 r3"));
  EXPECT_FALSE(filter.Passes("[m0 r99999999999999999999] beyond numbers"));
  EXPECT_FALSE(filter.Passes(""));
}

TEST(LogFilterTest, JsonLinesBelongToTheRankTheySay) {
  const LogFilter filter(SpecOf(core::LogFormat::kJson), 3);
  EXPECT_TRUE(filter.Passes(R"({"machine":0,"rank":3,"message":"loss"})"));
  EXPECT_FALSE(filter.Passes(R"({"machine":0,"rank":2,"message":"\"rank\":3"})"));
  EXPECT_FALSE(filter.Passes(R"({"machine":0,"rank":"3"})"));
  EXPECT_FALSE(filter.Passes("rank 3"));
}

TEST(LogFilterTest, EverythingPassesWithoutARankAndWhereLinesDoNotSayTheirs) {
  EXPECT_TRUE(LogFilter(SpecOf(core::LogFormat::kPrefix), std::nullopt).Passes("anything"));
  EXPECT_TRUE(LogFilter(SpecOf(core::LogFormat::kRaw), 3).Passes("anything"));
  core::Spec spec = SpecOf(core::LogFormat::kPrefix);
  spec.launch = core::Launch::kPerMachine;
  EXPECT_TRUE(LogFilter(spec, 3).Passes("[m0 r0] of torchrun"));
}

TEST(LogFilterTest, WhatKeepsARankFromBeingShownAloneIsSaid) {
  EXPECT_EQ(WhyNotAlone(SpecOf(core::LogFormat::kPrefix), 3), "");
  EXPECT_THAT(WhyNotAlone(SpecOf(core::LogFormat::kRaw), 3), HasSubstr("logs.format is Raw"));
  core::Spec spec = SpecOf(core::LogFormat::kPrefix);
  spec.logs.console = core::Console::kRankZero;
  EXPECT_EQ(WhyNotAlone(spec, 0), "");
  EXPECT_THAT(WhyNotAlone(spec, 1), HasSubstr("logs.console is RankZero"));
  spec = SpecOf(core::LogFormat::kRaw);
  spec.processes_per_machine = 1;
  EXPECT_EQ(WhyNotAlone(spec, 1), "");
}

TEST(SplitStampTest, AStampIsWhatStandsBeforeTheFirstBlankIfItIsATime) {
  const StampedLine line = SplitStamp("2026-11-21T08:00:00.123456789Z [m0 r3] a b");
  EXPECT_EQ(line.at, *ParseWallTime("2026-11-21T08:00:00.123456789Z"));
  EXPECT_EQ(line.text, "[m0 r3] a b");
  EXPECT_EQ(SplitStamp("2026-11-21T08:00:00Z").text, "");
  EXPECT_EQ(SplitStamp("2026-11-21T08:00:00Z ").text, "");
  EXPECT_EQ(SplitStamp("no stamp").at, std::nullopt);
  EXPECT_EQ(SplitStamp("no stamp").text, "no stamp");
}

StoredJob MakeJob() {
  StoredJob job;
  job.meta.name = "gpt";
  job.job.spec = SpecOf(core::LogFormat::kPrefix);
  return job;
}

TEST(MachineAskedTest, ARankIsItsMachine) {
  EXPECT_EQ(*MachineAsked(MakeJob(), {.name = "gpt", .rank = 7}), 1);
  EXPECT_EQ(*MachineAsked(MakeJob(), {.name = "gpt", .machine = 1}), 1);
  EXPECT_EQ(*MachineAsked(MakeJob(), {.name = "gpt"}), std::nullopt);
}

TEST(MachineAskedTest, WhatTheJobDoesNotHaveIsRefusedWithWhatItHas) {
  EXPECT_EQ(MachineAsked(MakeJob(), {.name = "gpt", .rank = 8}).error().message,
            "trainingjob gpt has ranks 0 to 7");
  EXPECT_EQ(MachineAsked(MakeJob(), {.name = "gpt", .rank = -1}).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(MachineAsked(MakeJob(), {.name = "gpt", .machine = 2}).error().message,
            "trainingjob gpt has machines 0 to 1");
}

TEST(MachineAskedTest, TheGangsSizeCountsWhileTheJobIsBeingScaled) {
  StoredJob job = MakeJob();
  job.status.replicas = 3;
  EXPECT_EQ(*MachineAsked(job, {.name = "gpt", .rank = 11}), 2);
}

TEST(MachineAskedTest, RanksAreOfTheMachinesThatTakePart) {
  StoredJob job = MakeJob();
  job.status.replicas = 3;
  job.status.elastic = core::ElasticStatus{.members = *core::Members::Parse("0,2")};
  EXPECT_EQ(*MachineAsked(job, {.name = "gpt", .rank = 3}), 0);
  EXPECT_EQ(*MachineAsked(job, {.name = "gpt", .rank = 7}), 2);
  EXPECT_EQ(*MachineAsked(job, {.name = "gpt", .machine = 1}), 1);
  EXPECT_EQ(MachineAsked(job, {.name = "gpt", .rank = 8}).error().message,
            "trainingjob gpt has ranks 0 to 7");
}

kube::PodView Pod(int machine, uint32_t attempt) {
  kube::PodView pod;
  pod.meta.name = "gpt-" + std::to_string(machine) + "-r" + std::to_string(attempt);
  pod.machine = machine;
  pod.attempt = attempt;
  return pod;
}

TEST(CurrentPodsTest, TheHighestAttemptOfAMachineIsItsCurrentPod) {
  const kube::PodView old = Pod(1, 1);
  const kube::PodView current = Pod(1, 12);
  const kube::PodView other = Pod(0, 1);
  const kube::PodView foreign = Pod(-1, 0);
  const PodsByMachine all = CurrentPods({&current, &old, &other, &foreign}, std::nullopt);
  EXPECT_EQ(all, (PodsByMachine{{0, &other}, {1, &current}}));
  EXPECT_EQ(CurrentPods({&old, &current, &other}, 1), (PodsByMachine{{1, &current}}));
}

TEST(WaitsForTest, APodSaysWhatKeepsIt) {
  kube::PodView pod = Pod(0, 1);
  EXPECT_EQ(WaitsFor(pod), "a node");
  pod.schedule_reason = "Unschedulable";
  pod.schedule_message = "0/20 nodes are available";
  EXPECT_EQ(WaitsFor(pod), "Unschedulable: 0/20 nodes are available");
  pod.worker.kind = Kind::kWaiting;
  pod.worker.reason = "ImagePullBackOff";
  EXPECT_FALSE(HasStarted(pod));
  EXPECT_EQ(WaitsFor(pod), "ImagePullBackOff");
  pod.worker.kind = Kind::kTerminated;
  EXPECT_TRUE(HasStarted(pod));
}

}  // namespace
}  // namespace lockstep::cli::logs_test
