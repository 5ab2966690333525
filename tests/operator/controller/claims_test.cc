#include "operator/controller/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lockstep::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr Time kStart{hours(1)};

kube::ClaimView Claim(const std::string& name_space, const std::string& holder,
                      int64_t lasts = 60) {
  kube::ClaimView claim{.meta = {}, .holder = holder, .seconds = lasts};
  claim.meta.name_space = name_space;
  return claim;
}

TEST(Claims, OthersAreHeededUntilTheyWereNotSeenToChangeForAsLongAsTheyLast) {
  Claims claims("system/all");
  EXPECT_THAT(claims.Others(kStart), IsEmpty());
  EXPECT_EQ(claims.NextEnd(kStart), kNever);
  claims.OnSeen(Claim("a", "system/one"), kStart);
  claims.OnSeen(Claim("b", "system/two", 30), kStart);
  EXPECT_THAT(claims.Others(kStart), ElementsAre(Pair("a", "system/one"), Pair("b", "system/two")));
  EXPECT_EQ(claims.NextEnd(kStart), kStart + seconds(30));

  claims.OnSeen(Claim("b", "system/two", 30), kStart + seconds(20));
  EXPECT_EQ(claims.NextEnd(kStart + seconds(20)), kStart + seconds(50));
  EXPECT_THAT(claims.Others(kStart + seconds(50)), ElementsAre(Pair("a", "system/one")));
  EXPECT_EQ(claims.NextEnd(kStart + seconds(50)), kStart + seconds(60));
  EXPECT_THAT(claims.Others(kStart + seconds(60)), IsEmpty());
}

TEST(Claims, WhatIsReleasedOrGoneOrItsOwnIsNobodyElses) {
  Claims claims("system/all");
  claims.OnSeen(Claim("a", "system/one"), kStart);
  claims.OnSeen(Claim("a", ""), kStart);
  claims.OnSeen(Claim("b", "system/all"), kStart);
  claims.OnSeen(Claim("c", "system/one"), kStart);
  claims.OnGone("c");
  claims.OnSeen(Claim("d", "system/one", -1), kStart);
  EXPECT_THAT(claims.Others(kStart), IsEmpty());
  EXPECT_EQ(claims.NextEnd(kStart), kNever);
}

}  // namespace
}  // namespace lockstep::control
