#include "core/gang/roster/roster.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

Hello HelloOf(uint32_t attempt, bool predecessor_dead) {
  Hello hello;
  hello.attempt = attempt;
  hello.predecessor_dead = predecessor_dead;
  return hello;
}

TEST(RosterTest, AConnectionIsTheMachineThatSaidHelloLastOnIt) {
  Roster roster(2, {});
  EXPECT_EQ(roster.Of(7), nullptr);
  roster.Connect(roster[1], 7);
  EXPECT_EQ(roster.Of(7), &roster[1]);
  roster.Disconnect(roster[1]);
  EXPECT_EQ(roster.Of(7), nullptr);
  EXPECT_EQ(roster[1].connection, 0U);
}

TEST(RosterTest, NamesTheMachinesThatCannotTakePart) {
  Roster roster(4, {});
  for (Roster::Slot& slot : roster) roster.Connect(slot, slot.machine + 1);
  EXPECT_EQ(roster.Missing(), "");
  roster[0].draining = true;
  roster[2].replace = true;
  roster.Disconnect(roster[3]);
  EXPECT_EQ(roster.Missing(), "0, 2 (to be replaced), 3");
  EXPECT_TRUE(Roster(1000, {}).Missing().ends_with(", ..."));
}

TEST(RosterTest, AReplacementKeepsWhatIsKnownOfThePlaceAndNothingOfTheAgent) {
  Roster roster(2, {3, 4});
  Roster::Slot& slot = roster[1];
  roster.Replace(slot, HelloOf(4, false), false, seconds(30));
  EXPECT_EQ(slot.predecessor_out, Time::min()) << "its predecessors are earlier coordinators'";
  EXPECT_FALSE(slot.predecessor_confirmed);
  roster.Replace(slot, HelloOf(5, false), false, seconds(20));
  slot.report.phase = MemberPhase::kRunning;
  slot.lost_in = {2, 1};
  slot.older_out = seconds(9);
  roster.Replace(slot, HelloOf(6, false), true, seconds(15));
  EXPECT_EQ(slot.machine, 1U);
  EXPECT_EQ(slot.attempt, 6U);
  EXPECT_EQ(slot.lowest, 4U);
  EXPECT_EQ(slot.lost_in, (Generation{2, 1}));
  EXPECT_EQ(slot.report.phase, Report().phase);
  EXPECT_EQ(slot.predecessor_out, seconds(20)) << "those before it may live for longer";
  EXPECT_EQ(slot.older_out, seconds(9)) << "its predecessor had answered us, and so no other";
  roster.Replace(slot, HelloOf(7, true), false, seconds(30));
  EXPECT_EQ(slot.predecessor_out, Time::min());
  EXPECT_EQ(slot.older_out, kNever);
}

TEST(RosterTest, OldCoordinatorsAreOutOnceTheFirstWitnessSaysSo) {
  Roster roster(2, {});
  EXPECT_EQ(roster.OldCoordinatorsOut(Members::All(2)), kNever) << "nobody can tell";
  roster[0].older_out = seconds(30);
  roster[1].older_out = seconds(20);
  EXPECT_EQ(roster.OldCoordinatorsOut(Members::All(2)), seconds(20));
  roster[0].predecessor_confirmed = roster[1].predecessor_confirmed = true;
  EXPECT_EQ(roster.OldCoordinatorsOut(Members::All(2)), Time::min());
}

TEST(RosterTest, OnlyRanksOfThoseWhoAreHereKeepAJobFromBeingHeld) {
  Roster roster(2, {});
  roster[1].report.phase = MemberPhase::kRunning;
  EXPECT_TRUE(roster.NoRanksHere());
  roster.Connect(roster[1], 1);
  EXPECT_FALSE(roster.NoRanksHere());
  roster[1].lost = true;
  EXPECT_TRUE(roster.NoRanksHere()) << "a dead node ends no connection";
}

}  // namespace
}  // namespace lockstep::core
