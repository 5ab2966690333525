#include "core/model/machine_attempts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(MachineAttempts, OfAFreshJobAreOneRange) {
  MachineAttempts attempts;
  attempts.Reset(8, 1);
  EXPECT_THAT(attempts.Ranges(), ElementsAre(AttemptRange{1, "0-7"}));
  EXPECT_EQ(attempts.Of(7), 1u);
  EXPECT_EQ(attempts.Of(8), 0u);
  EXPECT_EQ(attempts.Of(-1), 0u);
}

TEST(MachineAttempts, SplitRoundAReplacedMachine) {
  MachineAttempts attempts;
  attempts.Reset(8, 1);
  attempts.Set(3, 5);
  attempts.Set(7, 2);
  EXPECT_THAT(attempts.Ranges(),
              ElementsAre(AttemptRange{1, "0-2,4-6"}, AttemptRange{2, "7"}, AttemptRange{5, "3"}));
}

TEST(MachineAttempts, AreForgottenOneByOne) {
  MachineAttempts attempts;
  attempts.Set(2, 4);
  attempts.Set(5, 4);
  attempts.Erase(9);
  attempts.Erase(2);
  EXPECT_THAT(attempts.Ranges(), ElementsAre(AttemptRange{4, "5"}));
  attempts.Erase(5);
  EXPECT_EQ(attempts, MachineAttempts());
}

TEST(MachineAttempts, OfNoMachinesAreNoRanges) {
  EXPECT_THAT(MachineAttempts().Ranges(), IsEmpty());
  EXPECT_TRUE(MachineAttempts().empty());
}

TEST(MachineAttempts, ReadBackWhatTheyWrote) {
  MachineAttempts attempts;
  attempts.Reset(MachineAttempts::kMost, 1);
  for (int machine = 0; machine < MachineAttempts::kMost; machine += 2) attempts.Set(machine, 2);
  Result<MachineAttempts> again = MachineAttempts::FromRanges(attempts.Ranges());
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(*again, attempts);
}

TEST(MachineAttempts, TakeRangesInAnyOrder) {
  Result<MachineAttempts> attempts = MachineAttempts::FromRanges({{4, "6,0-1"}, {2, "3"}});
  ASSERT_TRUE(attempts.ok());
  EXPECT_EQ(attempts->size(), 7);
  EXPECT_EQ(attempts->Of(1), 4u);
  EXPECT_EQ(attempts->Of(2), 0u);
  EXPECT_EQ(attempts->Of(3), 2u);
}

TEST(MachineAttempts, RefuseWhatIsNoListOfRanges) {
  for (const char* machines : {"", ",", "1,", ",1", "1-", "-1", "a", "1 ", "3-1", "4096", "0-4096",
                               "1--2", "1-2-3", "99999999999999999999", "1;2"}) {
    Result<MachineAttempts> attempts = MachineAttempts::FromRanges({{1, machines}});
    ASSERT_FALSE(attempts.ok()) << machines;
    EXPECT_THAT(attempts.error().message, HasSubstr("must be ranges below 4096")) << machines;
  }
}

TEST(MachineAttempts, RefuseAMachineOfTwoAttempts) {
  Result<MachineAttempts> attempts = MachineAttempts::FromRanges({{1, "0-4"}, {2, "3"}});
  ASSERT_FALSE(attempts.ok());
  EXPECT_EQ(attempts.error().message, "machine 3 appears twice");
  EXPECT_FALSE(MachineAttempts::FromRanges({{0, "1"}}).ok());
}

}  // namespace
}  // namespace lockstep::core
