#include "base/text/ascii.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lockstep {
namespace {

TEST(Ascii, BlanksAreTrimmedAtBothEndsAndNotWithin) {
  EXPECT_EQ(Trim("\t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \r\n"), "");
  EXPECT_EQ(Trim(" a\r", " \t"), "a\r");
}

TEST(Ascii, LettersBecomeLowerCaseAndOtherBytesStay) {
  EXPECT_EQ(ToLower("Content-LENGTH 7\xc3\x84"), "content-length 7\xc3\x84");
}

TEST(ParseNumber, TakesAllOfATextOrNothing) {
  EXPECT_EQ(ParseNumber<int>("-12"), -12);
  EXPECT_EQ(ParseNumber<uint32_t>("007"), 7u);
  for (const char* text : {"", " 1", "1 ", "1x", "+1", "0x1", "1.5", "-"}) {
    EXPECT_EQ(ParseNumber<int>(text), std::nullopt) << text;
  }
}

TEST(ParseNumber, RefusesWhatItsTypeCannotHold) {
  EXPECT_EQ(ParseNumber<uint16_t>("65535"), 65535);
  EXPECT_EQ(ParseNumber<uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(ParseNumber<uint32_t>("-1"), std::nullopt);
}

}  // namespace
}  // namespace lockstep
