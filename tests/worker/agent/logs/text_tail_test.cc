#include "worker/agent/logs/text_tail.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::agent {
namespace {

TEST(TextTail, KeepsTheLastWholeLines) {
  TextTail tail;
  tail.Feed("first line\nsecond\nthird\n");
  EXPECT_EQ(tail.Lines(1024), "first line\nsecond\nthird");
  EXPECT_EQ(tail.Lines(12), "second\nthird");
  EXPECT_EQ(tail.Lines(11), "third");
  EXPECT_EQ(tail.Lines(3), "ird");
}

TEST(TextTail, HoldsNoMoreThanItsLimitHoweverItIsFed) {
  TextTail tail;
  for (int i = 0; i < 1000; ++i) tail.Feed(std::string(100, 'a') + "\n");
  tail.Feed(std::string(2 * TextTail::kKept, 'b'));
  tail.Feed("\nlast\n");
  EXPECT_EQ(tail.Lines(1024), "last");
  EXPECT_LE(tail.Lines(1 << 20).size(), TextTail::kKept);
}

TEST(TextTail, CutsBetweenCharacters) {
  TextTail tail;
  tail.Feed("ääää");
  EXPECT_EQ(tail.Lines(5), "ää");
}

TEST(TextTail, IsValidUtf8WhenTheLimitCutACharacterAndNeverAboveTheSizeAsked) {
  TextTail tail;
  tail.Feed("\xC3" + std::string(TextTail::kKept - 1, '\xA4'));
  EXPECT_LE(tail.Lines(1024).size(), 1024U);
  EXPECT_EQ(SanitizeUtf8(tail.Lines(1024), 4096), tail.Lines(1024));
}

TEST(SanitizeUtf8, ReplacesWhatIsNotUtf8AndWhatWouldMoveATerminalsCursor) {
  EXPECT_EQ(SanitizeUtf8("grün \xF0\x9F\x98\x80", 100), "grün \xF0\x9F\x98\x80");
  EXPECT_EQ(SanitizeUtf8("a\xFFz", 100), "a\xEF\xBF\xBDz");
  EXPECT_EQ(SanitizeUtf8("\xC0\x80", 100), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(SanitizeUtf8("\xED\xA0\x80", 9), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(SanitizeUtf8("\xF4\x90\x80\x80", 3), "\xEF\xBF\xBD");
  EXPECT_EQ(SanitizeUtf8("\x1b[31mred\ttab\n", 100), " [31mred\ttab\n");
  EXPECT_EQ(SanitizeUtf8("grün", 3), "gr");
}

}  // namespace
}  // namespace lockstep::agent
