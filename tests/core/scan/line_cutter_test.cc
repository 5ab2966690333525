#include "core/scan/line_cutter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(LineCutterTest, EndsALineAtALineFeedAndAtACarriageReturn) {
  LineCutter cutter(Duration::zero());
  EXPECT_THAT(cutter.Feed("one\ntw", seconds(1)), ElementsAre("one"));
  EXPECT_THAT(cutter.Feed("o\r\nthree\r", seconds(1)), ElementsAre("two", "three"));
  EXPECT_THAT(cutter.Finish(), IsEmpty());
}

TEST(LineCutterTest, TakesTheStateOfABarWhoseCarriageReturnComesFirst) {
  LineCutter cutter;
  EXPECT_THAT(cutter.Feed("\r 1/10", seconds(1)), ElementsAre(" 1/10"));
}

TEST(LineCutterTest, KeepsTheNewestStateOfABarThatIsRedrawnTooOften) {
  LineCutter cutter;
  EXPECT_THAT(cutter.Feed("\r1/10\r2/10\r3/10\r", seconds(1)), ElementsAre("1/10"));
  EXPECT_EQ(cutter.NextTick(), seconds(1) + LineCutter::kGap);
  EXPECT_THAT(cutter.Tick(seconds(1) + LineCutter::kGap / 2), IsEmpty());
  EXPECT_THAT(cutter.Tick(seconds(1) + LineCutter::kGap), ElementsAre("3/10"));
  EXPECT_EQ(cutter.NextTick(), kNever);
}

TEST(LineCutterTest, TakesTheLastStateOfABarThatEndsItsLine) {
  LineCutter cutter;
  EXPECT_THAT(cutter.Feed("\r1/10\r10/10\n", seconds(1)), ElementsAre("1/10", "10/10"));
  EXPECT_THAT(cutter.Feed("\r2/10\r9/10\r\n", seconds(1)), ElementsAre("9/10"));
}

TEST(LineCutterTest, CutsALongLineAndGoesOnBehindItsEnd) {
  LineCutter cutter;
  const std::string line(3 * LineCutter::kMaxLine, 'x');
  EXPECT_THAT(cutter.Feed(line, seconds(1)), IsEmpty());
  EXPECT_THAT(cutter.Feed(line + "\nnext\n", seconds(1)),
              ElementsAre(std::string(LineCutter::kMaxLine, 'x'), "next"));
}

TEST(LineCutterTest, TakesALastLineWithoutAnEnd) {
  LineCutter cutter;
  EXPECT_THAT(cutter.Feed("a\nlast", seconds(1)), ElementsAre("a"));
  EXPECT_THAT(cutter.Finish(), ElementsAre("last"));
}

}  // namespace
}  // namespace lockstep::core
