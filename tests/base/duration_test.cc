#include "base/text/duration.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

TEST(Duration, ReadsGoSyntax) {
  const struct {
    const char* text;
    Duration duration;
  } cases[] = {
      {"0", seconds(0)},
      {"0s", seconds(0)},
      {"120s", seconds(120)},
      {"1h30m", minutes(90)},
      {"1.5h", minutes(90)},
      {"500ms", milliseconds(500)},
      {"1m0.25s", milliseconds(60'250)},
      {"3us", microseconds(3)},
      {"3\xC2\xB5s", microseconds(3)},
      {"7ns", nanoseconds(7)},
      {".5s", milliseconds(500)},
      {"1.s", seconds(1)},
      {"-2m", minutes(-2)},
      {"+2m", minutes(2)},
      {"1.9ns", nanoseconds(1)},
      {"0.3333333333333333333333h", nanoseconds(1'200'000'000'000 - 1)},
      {"2562047h47m16.854775807s", nanoseconds(std::numeric_limits<int64_t>::max())},
  };
  for (const auto& c : cases) {
    const Result<Duration> duration = ParseDuration(c.text);
    ASSERT_TRUE(duration.ok()) << c.text;
    EXPECT_EQ(*duration, c.duration) << c.text;
  }
}

TEST(Duration, RefusesWhatIsNoDurationAndShowsWhatToWrite) {
  for (const char* text : {"", "-", "5", "5 s", "s", "1x", "1h30", ".", ".s", "1..5s", "1d", "1S",
                           "one", "1e3s", "0x5s", "- 1s"}) {
    const Result<Duration> duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_EQ(duration.error().kind, ErrorKind::kInvalid) << text;
    EXPECT_NE(duration.error().message.find("1h30m"), std::string::npos) << text;
  }
}

TEST(Duration, RefusesWhatIsTooLongInsteadOfWrapping) {
  for (const char* text : {"2562047h47m16.854775808s", "99999999999999999999999h", "3000000h",
                           "9223372036854775807s", "9223372036854775807ns1ns"}) {
    const Result<Duration> duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_EQ(duration.error().kind, ErrorKind::kTooLarge) << text;
  }
}

TEST(Duration, WritesTheShortestFormThatReadsBack) {
  const struct {
    Duration duration;
    const char* text;
  } cases[] = {
      {seconds(0), "0s"},
      {seconds(120), "2m"},
      {minutes(90), "1h30m"},
      {milliseconds(1500), "1.5s"},
      {milliseconds(250), "250ms"},
      {microseconds(1500), "1.5ms"},
      {nanoseconds(1001), "1.001us"},
      {nanoseconds(1), "1ns"},
      {milliseconds(60'250), "1m250ms"},
      {seconds(-90), "-1m30s"},
      {nanoseconds(std::numeric_limits<int64_t>::max()), "2562047h47m16.854775807s"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(FormatDuration(c.duration), c.text);
    EXPECT_EQ(*ParseDuration(c.text), c.duration) << c.text;
  }
}

TEST(Duration, WritesTheSmallestValueWithoutOverflow) {
  EXPECT_EQ(FormatDuration(nanoseconds(std::numeric_limits<int64_t>::min())),
            "-2562047h47m16.854775808s");
}

}  // namespace
}  // namespace lockstep
