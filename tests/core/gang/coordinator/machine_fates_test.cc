#include "core/gang/coordinator/machine_fates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/gang/parts.h"

namespace lockstep::core::machine_fates_test {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const Generation kEnded{1, 2};

class MachineFatesTest : public testing::Test {
 protected:
  MachineFatesTest() {
    alone_.Begin(kEnded);
    for (Roster::Slot& slot : parts_.roster) slot.report.generation = kEnded;
  }
  std::vector<MachineFate> Fates() const { return FatesOf(kEnded, parts_.roster, lease_, alone_); }
  static Failure Death(int rank) {
    Failure death;
    death.rank = rank;
    death.cause = Cause::kProcessExit;
    death.exit_code = 5;
    return death;
  }

  FailurePolicy policy_;
  Counters counters_;
  Parts parts_{2};
  LeaseClock lease_{2, seconds(10), seconds(100)};
  AloneRanks alone_{{.ranks = {3}, .processes = 2, .names = {}},
                    policy_,
                    parts_.roster,
                    counters_,
                    parts_.outbox};
};

TEST_F(MachineFatesTest, HasTheDeathsThatMembersReportOfThisGeneration) {
  parts_.roster[0].report.deaths = {Death(1)};
  parts_.roster[1].report.deaths = {Death(2)};
  parts_.roster[1].report.generation = {1, 1};
  const std::vector<MachineFate> fates = Fates();
  ASSERT_THAT(fates, SizeIs(2));
  EXPECT_THAT(fates[0].deaths, SizeIs(1));
  EXPECT_THAT(fates[1].deaths, IsEmpty()) << "an earlier generation's report";
}

TEST_F(MachineFatesTest, NamesMachinesThatWereLostInThisGeneration) {
  parts_.roster[1].lost_in = kEnded;
  parts_.roster[1].lost_how = "fell silent for 15 s";
  EXPECT_TRUE(Fates()[1].lost);
  EXPECT_EQ(Fates()[1].lost_how, "fell silent for 15 s");
  parts_.roster[1].replace = true;
  EXPECT_FALSE(Fates()[1].lost) << "the gang itself asked for another machine";
  parts_.roster[1].replace = false;
  parts_.roster[1].lost_in = {1, 1};
  EXPECT_FALSE(Fates()[1].lost);
}

TEST_F(MachineFatesTest, DeathOfARankThatRestartsAloneCountsOnceItEndsTheGang) {
  parts_.roster[1].report.down = {Death(3)};
  EXPECT_THAT(Fates()[1].deaths, IsEmpty());
  policy_.rules.push_back(
      {.exit_codes = {5}, .signals = {}, .stderr_regex = "", .action = FailureAction::kFail});
  ASSERT_EQ(alone_.OnDeath(seconds(200), parts_.roster[1], Death(3), seconds(100)),
            AloneRanks::Answer::kStop);
  EXPECT_THAT(Fates()[1].deaths, SizeIs(1));
}

TEST_F(MachineFatesTest, HasNoMachineThatIsLeftOut) {
  parts_.roster.SetMembers(Members::Of({0}));
  EXPECT_THAT(Fates(), SizeIs(1));
}

}  // namespace
}  // namespace lockstep::core::machine_fates_test
