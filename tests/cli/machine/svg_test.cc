#include "cli/machine/svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SvgTest, NobodysTextBecomesPartOfThePicture) {
  Svg svg;
  svg.Text(1, 2, "<script>alert('&')</script>\x1b[2J\nmore");
  const std::string text = svg.Finish(10, 10);
  EXPECT_THAT(text, HasSubstr("&lt;script&gt;alert('&amp;')&lt;/script&gt;"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("<script")));
}

TEST(SvgTest, NumbersAreWrittenForEveryReader) {
  Svg svg;
  svg.Box(0.5, 1000000, 3, 4, "#fff");
  EXPECT_THAT(svg.Finish(20, 10), HasSubstr("x=\"0.5\" y=\"1e+06\""));
}

}  // namespace
}  // namespace lockstep::cli
