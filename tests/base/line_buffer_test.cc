#include "base/text/line_buffer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

std::vector<std::string> Whole(LineBuffer& lines) {
  std::vector<std::string> all;
  while (const auto line = lines.Next()) all.emplace_back(*line);
  return all;
}

TEST(LineBuffer, OnlyWholeLinesComeOut) {
  LineBuffer lines(100);
  lines.Append("ab");
  EXPECT_EQ(Whole(lines), std::vector<std::string>{});
  lines.Append("c\n\nde\nf");
  EXPECT_EQ(Whole(lines), (std::vector<std::string>{"abc", "", "de"}));
  EXPECT_EQ(lines.rest(), "f");
  lines.Append("\n");
  EXPECT_EQ(Whole(lines), std::vector<std::string>{"f"});
  EXPECT_EQ(lines.rest(), "");
}

TEST(LineBuffer, ALineThatGrowsBeyondTheBoundIsTold) {
  LineBuffer lines(4);
  lines.Append("1234");
  EXPECT_EQ(Whole(lines), std::vector<std::string>{});
  EXPECT_FALSE(lines.overflow());
  lines.Append("5");
  EXPECT_EQ(Whole(lines), std::vector<std::string>{});
  EXPECT_TRUE(lines.overflow());
  lines.Clear();
  EXPECT_FALSE(lines.overflow());
  EXPECT_EQ(lines.rest(), "");
}

}  // namespace
}  // namespace lockstep
