#include "operator/kube/resource_version.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::kube {
namespace {

TEST(ResourceVersion, NumbersAreComparedByValueAtAnyLength) {
  EXPECT_EQ(CompareResourceVersions("9", "10"), std::strong_ordering::less);
  EXPECT_EQ(CompareResourceVersions("10", "10"), std::strong_ordering::equal);
  EXPECT_EQ(CompareResourceVersions("340282366920938463463374607431768211455",
                                    "340282366920938463463374607431768211454"),
            std::strong_ordering::greater);
}

TEST(ResourceVersion, NothingIsKnownOfTheOrderOfAnythingElse) {
  for (const char* odd : {"", "0", "01", "1a", "-1", " 1"}) {
    EXPECT_FALSE(IsResourceVersion(odd)) << odd;
    EXPECT_EQ(CompareResourceVersions(odd, "1"), std::nullopt) << odd;
    EXPECT_EQ(CompareResourceVersions("1", odd), std::nullopt) << odd;
    EXPECT_FALSE(Covers(odd, "1")) << odd;
    EXPECT_FALSE(Covers("1", odd)) << odd;
  }
  EXPECT_FALSE(IsResourceVersion(std::string(40, '1')));
}

TEST(ResourceVersion, AStateCoversWhatWasWrittenUpToIt) {
  EXPECT_TRUE(Covers("100", "99"));
  EXPECT_TRUE(Covers("100", "100"));
  EXPECT_FALSE(Covers("99", "100"));
}

}  // namespace
}  // namespace lockstep::kube
