#include "base/text/enum_names.h"

#include <gtest/gtest.h>

namespace lockstep::core {

enum class Named { kFirst, kSecond };
template <>
inline constexpr auto kEnumNames<Named> =
    std::to_array<EnumName<Named>>({{Named::kFirst, "First"}, {Named::kSecond, "Second"}});

enum class LacksTheLast { kFirst, kSecond };
template <>
inline constexpr auto kEnumNames<LacksTheLast> =
    std::to_array<EnumName<LacksTheLast>>({{LacksTheLast::kFirst, "First"}});

enum class LacksOneBetween { kFirst, kSecond, kThird };
template <>
inline constexpr auto kEnumNames<LacksOneBetween> = std::to_array<EnumName<LacksOneBetween>>(
    {{LacksOneBetween::kFirst, "First"}, {LacksOneBetween::kThird, "Third"}});

TEST(EnumNamesTest, ReadBackAsTheyAreWritten) {
  EXPECT_STREQ(ToString(Named::kSecond), "Second");
  EXPECT_EQ(ParseEnum<Named>("Second"), Named::kSecond);
  EXPECT_EQ(ParseEnum<Named>("second"), std::nullopt);
}

TEST(EnumNamesTest, AValueWithoutARowIsSeenByTheCompiler) {
  static_assert(NamesEveryValue<Named>());
  static_assert(!NamesEveryValue<LacksTheLast>());
  static_assert(!NamesEveryValue<LacksOneBetween>());
}

}  // namespace lockstep::core
