#include "base/text/index_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(IndexListTest, RangesAndNumbersAreReadInAnyOrderWithoutDoubles) {
  EXPECT_THAT(*ParseIndexList("8,0-3,2-4\n"), ElementsAre(0, 1, 2, 3, 4, 8));
  EXPECT_THAT(*ParseIndexList(" \n"), IsEmpty());
}

TEST(IndexListTest, WhatIsNoListIsRefused) {
  for (const char* text : {"a", "1-", "-1", "3-1", "1,,2", "1,", "0x3", "1 2", "0-4000000000"}) {
    EXPECT_FALSE(ParseIndexList(text).ok()) << text;
  }
}

TEST(IndexListTest, AListThatNamesItsNumbersAgainAndAgainIsRefused) {
  EXPECT_THAT(*ParseIndexList("0-65535"), SizeIs(65536));
  std::string again = "0-40000";
  for (int i = 0; i < 100'000; ++i) again += ",0-40000";
  EXPECT_FALSE(ParseIndexList(again).ok());
}

TEST(IndexListTest, ListsAreWrittenAsTheKernelWritesThem) {
  for (const char* text : {"", "0", "0-3", "0,2,4", "0-1,3-7,12"}) {
    EXPECT_EQ(FormatIndexList(*ParseIndexList(text)), text);
  }
}

}  // namespace
}  // namespace lockstep
