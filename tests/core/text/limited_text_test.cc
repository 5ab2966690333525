#include "core/text/limited_text.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(LimitedText, LeavesWhatFits) {
  EXPECT_EQ(FirstBytes("short", 5), "short");
  EXPECT_EQ(LastBytes("short", 5), "short");
  EXPECT_EQ(FirstBytes("", 5), "");
  EXPECT_EQ(LastBytes("", 5), "");
}

TEST(LimitedText, ShowsThatTheEndIsMissing) { EXPECT_EQ(FirstBytes("abcdefghij", 8), "abcde..."); }

TEST(LimitedText, CutsBetweenCharacters) {
  const std::string text = "\u00e9\u00e9\u00e9\u00e9";  // 2 bytes each
  EXPECT_EQ(FirstBytes(text, 7), "\u00e9\u00e9...");
  EXPECT_EQ(FirstBytes(text, 6), "\u00e9...");
  EXPECT_EQ(LastBytes(text, 5), "\u00e9\u00e9");
}

TEST(LimitedText, ReplacesWhatNoDocumentCanHold) {
  EXPECT_EQ(FirstBytes("a\xff\x1b[0m\x7f\tb\n", 64), "a\uFFFD\uFFFD[0m\uFFFD\tb\n");
  EXPECT_EQ(LastBytes(std::string("a\0b", 3), 64), "a\uFFFDb");
  EXPECT_EQ(LastBytes("\x80\x80", 64), "\uFFFD\uFFFD");
  EXPECT_EQ(Printable("\u009b2J\u00a0"), "\uFFFD2J\u00a0");
  EXPECT_EQ(OneLine("a\tb\nc\r"), "a b c\uFFFD");
}

TEST(LimitedText, StaysWithinTheLimitThoughReplacementsAreLonger) {
  EXPECT_EQ(FirstBytes(std::string(10, '\xff'), 10), "\uFFFD\uFFFD...");
  EXPECT_EQ(LastBytes(std::string(10, '\xff'), 10), "\uFFFD\uFFFD\uFFFD");
}

TEST(LimitedText, CutTwiceIsCutOnce) {
  const std::string once = FirstBytes(std::string(300, 'x'), 256);
  EXPECT_EQ(once.size(), 256u);
  EXPECT_EQ(FirstBytes(once, 256), once);
}

}  // namespace
}  // namespace lockstep::core
