#include "base/text/columns.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(AlignColumnsTest, CellsStandInColumnsAndLinesEndWithoutBlanks) {
  EXPECT_EQ(AlignColumns({{"A", "BB", ""}, {"long", "b", "c"}}, " "), " A     BB\n long  b   c\n");
}

}  // namespace
}  // namespace lockstep
