#include "cli/numa/team.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "cli/numa/bench.h"

namespace lockstep::numa {
namespace {

using ::testing::AllOf;
using ::testing::Gt;
using ::testing::HasSubstr;

constexpr std::atomic<bool> kGoOn = false;

// Two workers on the first node of this machine that Settings compares, or on no known node.
TeamWork SmallWork() {
  TeamWork work;
  work.cpus = {-1, -1};
  work.bytes = 1 << 20;
  const Result<topology::Machine> machine = topology::Discover();
  if (!machine.ok()) return work;
  for (const Setting& setting : Settings(*machine)) {
    if (setting.kind == Kind::kLocal) work.memory = setting.work.memory;
  }
  return work;
}

TEST(TeamTest, ThreadsAndProcessesRunEveryKernelOnPagesThatTheKernelShows) {
  for (const bool processes : {false, true}) {
    TeamWork work = SmallWork();
    work.processes = processes;
    const Result<TeamResult> team = RunTeam(work, kGoOn);
    ASSERT_TRUE(team.ok()) << team.error().message;
    for (const double seconds : team->seconds) EXPECT_GT(seconds, 0);
    // 3 MiB, in pages of 4 KiB or as many counted for a huge one; 0 on kernels without NUMA.
    if (team->pages > 0) {
      EXPECT_GE(team->pages, 3U << 20 >> 12);
      EXPECT_EQ(team->pages_placed, team->pages);
    }
  }
}

TEST(TeamTest, PointersAreFollowedInAMeasurableTime) {
  TeamWork work = SmallWork();
  work.cpus = {-1};
  work.task = Task::kChase;
  const Result<TeamResult> team = RunTeam(work, kGoOn);
  ASSERT_TRUE(team.ok()) << team.error().message;
  EXPECT_THAT(team->nanoseconds, AllOf(Gt(0.1), ::testing::Lt(1e6)));
}

TEST(TeamTest, SmallArraysHaveFiguresOfTheirCacheAndTheSameCheckedResults) {
  TeamWork work = SmallWork();
  work.cpus = {-1};
  work.bytes = 8 << 10;
  const Result<TeamResult> team = RunTeam(work, kGoOn);
  ASSERT_TRUE(team.ok()) << team.error().message;
  for (const double seconds : team->seconds) EXPECT_THAT(seconds, AllOf(Gt(0), ::testing::Lt(0.1)));
}

TEST(TeamTest, MessagesArriveWholeAndInAMeasurableTime) {
  TeamWork work;
  work.cpus = {-1, -1};
  work.processes = true;
  work.task = Task::kMessages;
  const Result<TeamResult> team = RunTeam(work, kGoOn);
  ASSERT_TRUE(team.ok()) << team.error().message;
  EXPECT_THAT(team->nanoseconds, AllOf(Gt(1), ::testing::Lt(1e9)));
  EXPECT_GT(team->message_seconds, 0);
}

TEST(TeamTest, AMessageWorkerThatCannotBeBoundIsNamedAndTheOtherDoesNotWaitForIt) {
  TeamWork work;
  work.cpus = {-1, 60000};
  work.processes = true;
  work.task = Task::kMessages;
  const Result<TeamResult> team = RunTeam(work, kGoOn);
  ASSERT_FALSE(team.ok());
  EXPECT_THAT(team.error().message, HasSubstr("worker 1: sched_setaffinity"));
}

TEST(TeamTest, ACounterHasAFigureOrTheReasonWhyNot) {
  const Result<TeamResult> team = RunTeam(SmallWork(), kGoOn);
  ASSERT_TRUE(team.ok());
  for (const int error : team->counts.errors) {
    EXPECT_THAT(error, ::testing::AnyOf(0, ENOENT, EACCES, EPERM, ENOSYS, EOPNOTSUPP));
  }
}

TEST(TeamTest, AWorkerThatCannotBeBoundIsNamedAndTheOthersDoNotWaitForIt) {
  for (const bool processes : {false, true}) {
    TeamWork work = SmallWork();
    work.processes = processes;
    work.cpus = {-1, 60000};
    const Result<TeamResult> team = RunTeam(work, kGoOn);
    ASSERT_FALSE(team.ok());
    EXPECT_THAT(team.error().message, AllOf(HasSubstr("worker 1"), HasSubstr("sched_setaffinity")));
  }
}

TEST(TeamTest, MemoryThatIsNotThereIsSaid) {
  TeamWork work = SmallWork();
  work.bytes = size_t{1} << 58;
  const Result<TeamResult> team = RunTeam(work, kGoOn);
  ASSERT_FALSE(team.ok());
  EXPECT_THAT(team.error().message, HasSubstr("allocating memory"));
}

size_t AddressSpaceInUse() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(getpagesize());
}

TEST(TeamTest, AThreadThatCannotBeStartedIsNamedAndTheOthersLeave) {
  // Room for the stacks of two or three.
  constexpr size_t kStack = size_t{1} << 30;
  pthread_attr_t before;
  pthread_attr_t large;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&large), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&large, kStack), 0);
  ASSERT_EQ(pthread_setattr_default_np(&large), 0);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  const rlimit narrow{AddressSpaceInUse() + 3 * kStack + kStack / 2, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &narrow), 0);
  TeamWork work = SmallWork();
  work.cpus.assign(8, -1);
  const Result<TeamResult> team = RunTeam(work, kGoOn);
  setrlimit(RLIMIT_AS, &old);
  pthread_setattr_default_np(&before);
  ASSERT_FALSE(team.ok());
  EXPECT_THAT(team.error().message, HasSubstr("starting a thread"));
}

TEST(TeamTest, AnInterruptedTeamLeavesTogether) {
  const std::atomic<bool> stop = true;
  for (const bool processes : {false, true}) {
    TeamWork work = SmallWork();
    work.processes = processes;
    const Result<TeamResult> team = RunTeam(work, stop);
    ASSERT_FALSE(team.ok());
    EXPECT_EQ(team.error().message, "interrupted");
  }
}

}  // namespace
}  // namespace lockstep::numa
