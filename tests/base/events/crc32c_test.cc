#include "base/events/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::events {
namespace {

// RFC 3720, B.4.
TEST(Crc32cTest, TheExamplesOfTheStandardHold) {
  std::string rising(32, '\0');
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<char>(i);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(Crc32c(rising), 0x46DD794EU);
  EXPECT_EQ(Crc32c(""), 0U);
}

TEST(Crc32cTest, TableAndInstructionAgreeOnEveryLengthAndAlignment) {
  std::string bytes(100, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 131 + 7);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= bytes.size(); ++size) {
      std::string_view part = std::string_view(bytes).substr(begin, size);
      EXPECT_EQ(Crc32c(part), Crc32cByTable(part));
    }
  }
}

}  // namespace
}  // namespace lockstep::events
