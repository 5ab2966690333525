#include "base/wall_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace lockstep {
namespace {

using std::chrono::sys_days;

constexpr std::chrono::year_month_day kDay{std::chrono::year(2026), std::chrono::month(11),
                                           std::chrono::day(21)};
const WallTime kTime = sys_days(kDay) + hours(8) + minutes(38) + seconds(39);

WallTime Parsed(const std::string& text) {
  auto time = ParseWallTime(text);
  EXPECT_TRUE(time.ok()) << text;
  return time.ok() ? *time : WallTime{};
}

TEST(WallTime, ReadsAndWritesWholeSeconds) {
  EXPECT_EQ(Parsed("2026-11-21T08:38:39Z"), kTime);
  EXPECT_EQ(FormatWallTime(kTime), "2026-11-21T08:38:39Z");
  EXPECT_EQ(FormatWallTime(kTime + milliseconds(999)), "2026-11-21T08:38:39Z");
}

TEST(WallTime, ReadsFractionsAndOffsetsAndLowerCase) {
  EXPECT_EQ(Parsed("2026-11-21T08:38:39.5Z"), kTime + milliseconds(500));
  EXPECT_EQ(Parsed("2026-11-21T08:38:39.123456789123Z"), kTime + nanoseconds(123456789));
  EXPECT_EQ(Parsed("2026-11-21T10:08:39+01:30"), kTime);
  EXPECT_EQ(Parsed("2026-11-20T22:38:39-10:00"), kTime);
  EXPECT_EQ(Parsed("2026-11-21t08:38:39z"), kTime);
}

TEST(WallTime, ALeapSecondIsTheSecondAfterIt) {
  EXPECT_EQ(Parsed("2016-12-31T23:59:60Z"), Parsed("2017-01-01T00:00:00Z"));
}

TEST(WallTime, MicroTimesHaveSixDigits) {
  EXPECT_EQ(FormatMicroTime(kTime), "2026-11-21T08:38:39.000000Z");
  EXPECT_EQ(FormatMicroTime(kTime + nanoseconds(1'234'999)), "2026-11-21T08:38:39.001234Z");
}

TEST(WallTime, TimesBefore1970AreWrittenAndReadBack) {
  const WallTime time = Parsed("1969-12-31T23:59:58.75Z");
  EXPECT_EQ(time.time_since_epoch(), milliseconds(-1250));
  EXPECT_EQ(FormatWallTime(time), "1969-12-31T23:59:58Z");
  EXPECT_EQ(FormatMicroTime(time), "1969-12-31T23:59:58.750000Z");
}

TEST(WallTime, TheFirstAndLastYearAreHeldWhole) {
  for (const char* text : {"1678-01-01T00:00:00Z", "2261-12-31T23:59:59Z"}) {
    EXPECT_EQ(FormatWallTime(Parsed(text)), text);
  }
}

TEST(WallTime, WhatIsNoTimeIsInvalid) {
  for (const char* text :
       {"", "2026-11-21", "2026-11-21T08:38:39", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-11-21T24:00:00Z", "2026-11-21T08:60:00Z", "2026-11-21T08:38:61Z",
        "2026-11-21T08:38:39.Z", "2026-11-21T08:38:39+24:00", "2026-11-21T08:38:39Zx",
        "2026-11-21 08:38:39Z", "0001-01-01T00:00:00Z", "26-11-21T08:38:39Z"}) {
    auto time = ParseWallTime(text);
    ASSERT_FALSE(time.ok()) << text;
    EXPECT_EQ(time.error().kind, ErrorKind::kInvalid);
  }
}

}  // namespace
}  // namespace lockstep
