#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iostream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/gang/protocol/rules.h"
#include "tests/sim/schedule.h"
#include "tests/sim/world.h"

namespace lockstep::sim {
namespace {

// Sanitizers make schedules many times slower.
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSlow = true;
#else
constexpr bool kSlow = false;
#endif

constexpr unsigned kThreads = 2;

// The lowest seed in [first, last] at which something breaks, or so; nullopt if nothing does.
std::optional<uint64_t> Hunt(uint64_t first, uint64_t last, const std::string& mutant,
                             bool cluster) {
  std::atomic<uint64_t> next = first;
  std::atomic<uint64_t> found = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (uint64_t seed = next++; seed <= last && found == 0; seed = next++) {
        if (RunSchedule(DrawSchedule(seed, mutant, cluster)).violation) found = seed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return found == 0 ? std::nullopt : std::optional<uint64_t>(found);
}

std::string Explain(const Schedule& schedule) {
  std::ostringstream trace;
  Schedule small = Shrink(schedule);
  RunSchedule(small, &trace);
  return Format(small) + trace.str();
}

TEST(Simulator, FindsNoInvariantBrokenUnderLockstepRun) {
  std::optional<uint64_t> seed = Hunt(1, kSlow ? 1000 : 10'000, "", false);
  ASSERT_FALSE(seed.has_value()) << Explain(DrawSchedule(*seed));
}

TEST(Simulator, FindsNoInvariantBrokenUnderTheOperatorOfACluster) {
  std::optional<uint64_t> seed = Hunt(1, kSlow ? 50 : 5000, "", true);
  ASSERT_FALSE(seed.has_value()) << Explain(DrawSchedule(*seed, "", true));
}

TEST(Simulator, RunsTheSameScheduleToTheSameTrace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    std::ostringstream first;
    std::ostringstream second;
    const bool cluster = seed % 2 == 0;
    RunSchedule(DrawSchedule(seed, "", cluster), &first);
    RunSchedule(DrawSchedule(seed, "", cluster), &second);
    ASSERT_EQ(first.str(), second.str()) << "seed " << seed;
    ASSERT_FALSE(first.str().empty());
  }
}

TEST(Simulator, DrawsAtLeastTwoKindsOfFaults) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    std::set<FaultKind> kinds;
    for (const Fault& fault : DrawSchedule(seed).faults) kinds.insert(fault.kind);
    ASSERT_GE(kinds.size(), 2U) << "seed " << seed;
  }
}

TEST(Simulator, ReadsBackTheScheduleThatItWrites) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Schedule schedule = DrawSchedule(seed, "", seed % 2 == 0);
    Result<Schedule> read = ParseSchedule(Format(schedule));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(Format(*read), Format(schedule));
  }
}

TEST(Simulator, SaysWhatItCannotReadInACase) {
  EXPECT_FALSE(ParseSchedule("fault exit at=1ms").ok()) << "there is no seed";
  EXPECT_FALSE(ParseSchedule("seed 1\nfault earthquake at=1ms").ok());
  EXPECT_FALSE(ParseSchedule("seed 1\nfault exit at=soon").ok());
  EXPECT_FALSE(ParseSchedule("seed 1\nfault exit on=Nowhere/1").ok());
  EXPECT_FALSE(ParseSchedule("seed 1\nsurprise").ok());
}

TEST(Simulator, ShrinksAFailingScheduleToFewerFaults) {
  std::optional<uint64_t> seed = Hunt(1, 10'000, "NoGuard", true);
  ASSERT_TRUE(seed.has_value());
  Schedule schedule = DrawSchedule(*seed, "NoGuard", true);
  Schedule small = Shrink(schedule);
  EXPECT_LE(small.faults.size(), schedule.faults.size());
  EXPECT_TRUE(RunSchedule(small).violation.has_value());
}

// The seeds at which a hunt from 1 found the mutants that take it longest. They are tried first; a
// change of the simulator can make them miss, and then the hunt begins at 1 and prints the new
// seed.
uint64_t SeedToTryFirst(const std::string& mutant) {
  static const std::map<std::string, uint64_t> kSeeds = {
      {"StartDropsLaterMemory", 16517}, {"WaitForPredecessor", 469}, {"LeftOutAreOut", 616},
      {"CommitNeedsFreshAnswers", 837}, {"AloneIsCharged", 2095},    {"QuotaAskedForSince", 16841}};
  const auto known = kSeeds.find(mutant);
  return known == kSeeds.end() ? 1 : known->second;
}

class Mutant : public testing::TestWithParam<std::string> {};

TEST_P(Mutant, IsCaught) {
  if (kSlow) GTEST_SKIP() << "takes minutes with sanitizers, which have nothing to find in it";
  const uint64_t first = SeedToTryFirst(GetParam());
  std::optional<uint64_t> seed = Hunt(first, first, GetParam(), true);
  if (!seed) {
    seed = Hunt(1, 1'000'000, GetParam(), true);
    ASSERT_TRUE(seed.has_value());
    std::cout << GetParam() << " is caught at seed " << *seed << '\n';
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Mutant, testing::ValuesIn(Mutants()), [](const auto& mutant) {
  std::string name = mutant.param;
  std::replace(name.begin(), name.end(), '+', '_');
  return name;
});

// What docs/reference/limits.md says can happen does happen, and nothing more than that.
class Limit : public testing::TestWithParam<std::string> {};

TEST_P(Limit, LetsTwoGenerationsRunAndForksNoLineOfCheckpoints) {
  if (kSlow) GTEST_SKIP() << "takes minutes with sanitizers, which have nothing to find in it";
  const std::optional<uint64_t> seed = Hunt(1, 1'000'000, GetParam(), true);
  ASSERT_TRUE(seed.has_value());
  World world(DrawSchedule(*seed, GetParam() + "+Tolerant", true), nullptr);
  const std::string broken =
      RunSchedule(DrawSchedule(*seed, GetParam(), true)).violation->invariant;
  EXPECT_TRUE(world.Tolerates(broken)) << broken;
  const std::string tolerant = GetParam() + "+Tolerant";
  const std::optional<uint64_t> worse = Hunt(1, 300, tolerant, true);
  ASSERT_FALSE(worse.has_value()) << Explain(DrawSchedule(*worse, tolerant, true));
}

INSTANTIATE_TEST_SUITE_P(Every, Limit, testing::ValuesIn(Limits()),
                         [](const auto& limit) { return limit.param; });

// The schedule holds, its job ends well, and these are in its trace, one after the other.
void ExpectEvents(const std::string& text, std::initializer_list<const char*> events) {
  Result<Schedule> schedule = ParseSchedule(text);
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  EXPECT_EQ(Format(*schedule), Format(*ParseSchedule(Format(*schedule))));
  std::ostringstream trace;
  const Outcome outcome = RunSchedule(*schedule, &trace);
  EXPECT_FALSE(outcome.violation.has_value()) << trace.str();
  EXPECT_TRUE(outcome.success);
  size_t at = 0;
  for (const char* event : events) {
    at = trace.str().find(event, at);
    ASSERT_NE(at, std::string::npos) << event << " in " << trace.str();
  }
}

TEST(NoRoom, ReleasesAGangThatComesBack) {
  ExpectEvents(
      "seed 6\ncluster\n"
      "fault no-room at=1500ms for=11000ms machine=0 rank=0 arg=0\n"
      "fault kill-agent at=1600ms for=0ms machine=1 rank=0 arg=0\n",
      {"pod gpt-1-r2 is made, and finds no node", "pod gpt-0 is deleted",
       "pod gpt-0-r3 is made\n"});
}

TEST(Elastic, AGangGoesOnWithoutAMachineAndTakesItInAgain) {
  ExpectEvents(
      "seed 64\ncluster\n"
      "fault no-room at=900ms for=4000ms machine=0 rank=0 arg=0\n"
      "fault kill-agent at=1000ms for=0ms machine=1 rank=0 arg=0\n"
      "fault cut at=9000ms for=0ms machine=1 rank=0 arg=0\n",
      {"exec rank 1 of 1-1", "finds no node", "now have machines 0\n", "exec rank 0 of 1-2",
       "m1#2 boots", "now have machines 0-1", "exec rank 1 of 1-3"});
}

TEST(Elastic, Machine0GetsTheNodeOfAnotherWhichIsTakenInAgain) {
  ExpectEvents(
      "seed 64\ncluster\n"
      "fault no-room at=900ms for=20000ms machine=0 rank=0 arg=0\n"
      "fault kill-agent at=1000ms for=0ms machine=0 rank=0 arg=0\n"
      "fault cut at=24000ms for=0ms machine=1 rank=0 arg=0\n",
      {"exec rank 1 of 1-1", "pod gpt-0-r2 is made, and finds no node", "now have machines 0\n",
       "pod gpt-1 is deleted", "pod gpt-1-r3 is made, and finds no node", "m0#2 boots",
       "exec rank 0 of 2-1", "now have machines 0-1", "exec rank 1 of 2-2"});
}

TEST(Spares, OneLeavesBeforeTheMachineThatIsLostIsMadeAndAnotherFollows) {
  ExpectEvents(
      "seed 6\ncluster\nspares 1\n"
      "fault kill-agent at=1600ms for=0ms machine=1 rank=0 arg=0\n",
      {"spare gpt-spare0 is made", "pod gpt-spare0 is deleted", "pod gpt-1-r2 is made",
       "spare gpt-spare0 is made"});
}

TEST(Queue, AGangLeavesWhenItsAdmissionIsTakenBackAndComesAgain) {
  ExpectEvents(
      "seed 6\ncluster\nqueued\n"
      "fault preempt at=1500ms for=2000ms machine=0 rank=0 arg=0\n"
      "fault cut at=6000ms for=0ms machine=1 rank=0 arg=0\n",
      {"queue: the job is admitted", "pod gpt-0 is made", "queue: the job is to leave",
       "pod gpt-0 is deleted", "queue: what the job held is released", "queue: the job is admitted",
       "pod gpt-0-r2 is made"});
}

// Machine 1 finds no node for long enough to give its share of the quota back, twice.
constexpr char kLeftOut[] =
    "seed 64\ncluster\nqueued\nslices\n"
    "fault no-room at=900ms for=9000ms machine=0 rank=0 arg=0\n"
    "fault kill-agent at=1000ms for=0ms machine=1 rank=0 arg=0\n"
    "fault cut at=19000ms for=0ms machine=1 rank=0 arg=0\n";

TEST(Slices, WhatAMachineHadIsGivenBackAndAskedForAgain) {
  ExpectEvents(kLeftOut,
               {"pod gpt-1-r2 is made, and finds no node", "pod gpt-1-r2 is deleted",
                "trainingjob-gpt is of 1", "trainingjob-gpt-s4 of 2 is asked for",
                "admitted, as trainingjob-gpt-s4 of 2", "pod gpt-1-r5 is made, and finds no node",
                "trainingjob-gpt-s4 is of 1", "admitted, as trainingjob-gpt-s6 of 2",
                "pod gpt-1-r7 is made\n", "exec rank 1 of 1-2"});
}

TEST(Slices, NothingIsGivenBackWhileItsPodIsThere) {
  Result<Schedule> schedule = ParseSchedule(kLeftOut);
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  schedule->mutant = "LeftBeforeReleased";
  const Outcome outcome = RunSchedule(*schedule);
  ASSERT_TRUE(outcome.violation.has_value());
  EXPECT_EQ(outcome.violation->invariant, "LeftBeforeReleased");
}

std::vector<std::string> Cases() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(LOCKSTEP_SIM_CASES)) {
    if (entry.path().extension() == ".txt") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class Case : public testing::TestWithParam<std::string> {};

TEST_P(Case, NeverBreaksAgain) {
  std::ifstream file(GetParam());
  std::ostringstream text;
  text << file.rdbuf();
  Result<Schedule> schedule = ParseSchedule(text.str());
  ASSERT_TRUE(schedule.ok()) << schedule.error().message;
  for (const bool cluster : {false, true}) {
    schedule->cluster = cluster;
    std::ostringstream trace;
    Outcome outcome = RunSchedule(*schedule, &trace);
    EXPECT_FALSE(outcome.violation.has_value()) << trace.str();
  }
}

INSTANTIATE_TEST_SUITE_P(Named, Case, testing::ValuesIn(Cases()), [](const auto& file) {
  std::string name = std::filesystem::path(file.param).stem().string();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lockstep::sim
