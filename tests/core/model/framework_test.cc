#include "core/model/framework.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

TEST(Framework, AListNamesThoseThatAreWanted) {
  EXPECT_EQ(ListFrameworks(&FrameworkRow::ports), "TensorFlow");
  EXPECT_EQ(ListFrameworks(&FrameworkRow::elastic), "Torch, Accelerate, Jax or None");
  EXPECT_TRUE(ListFrameworks().starts_with("Torch, "));
  EXPECT_TRUE(ListFrameworks().ends_with(" or None"));
}

TEST(Framework, EachHasTheRowOfItsOwn) {
  for (const FrameworkRow& row : kFrameworks) {
    EXPECT_EQ(RowOf(row.framework).name, row.name);
    EXPECT_EQ(ParseEnum<Framework>(row.name), row.framework);
  }
}

}  // namespace
}  // namespace lockstep::core
