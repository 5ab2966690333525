#include "core/terms/members.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(Members, StandInDocumentsAsRanges) {
  const Result<Members> members = Members::Parse("0-2,5");
  ASSERT_TRUE(members.ok()) << members.error().message;
  EXPECT_EQ(*members, Members::Of({5, 1, 0, 2, 1}));
  EXPECT_EQ(members->ToString(), "0-2,5");
  EXPECT_TRUE(Members::Parse("")->empty());
  EXPECT_EQ(Members::All(3).ToString(), "0-2");
  for (const char* wrong : {"0-4096", "a", "3-1", "-1"}) {
    EXPECT_FALSE(Members::Parse(wrong).ok()) << wrong;
  }
}

TEST(Members, AMachinesPlaceIsTheNumberOfMembersBelowIt) {
  const Members members = Members::Of({0, 2, 7});
  EXPECT_EQ(members.PlaceOf(0), 0U);
  EXPECT_EQ(members.PlaceOf(2), 1U);
  EXPECT_EQ(members.PlaceOf(7), 2U);
  EXPECT_EQ(members.At(2), 7U);
  EXPECT_EQ(members.last(), 7U);
  EXPECT_TRUE(members.Contains(2));
  EXPECT_FALSE(members.Contains(1));
}

TEST(Members, AndHasThoseOfBoth) {
  EXPECT_EQ(Members::Of({0, 2, 7}).And(Members::Of({2, 3, 7})), Members::Of({2, 7}));
}

}  // namespace
}  // namespace lockstep::core
