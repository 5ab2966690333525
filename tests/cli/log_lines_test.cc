#include "cli/log_lines.h"

#include <gtest/gtest.h>

namespace lockstep::cli::log_lines_test {
namespace {

using Format = core::LogFormat;

TEST(ParseRankLineTest, APrefixNamesTheRankAndIsNotPartOfTheText) {
  const RankLine line = ParseRankLine(Format::kPrefix, "[m1 r7] loss [m0 r3] 2.3");
  EXPECT_EQ(line.rank, 7u);
  EXPECT_EQ(line.text, "loss [m0 r3] 2.3");
  EXPECT_EQ(ParseRankLine(Format::kPrefix, "[m1 r7] ").text, "");
  EXPECT_EQ(ParseRankLine(Format::kPrefix, "[m1 r7]   indented").text, "  indented");
}

TEST(ParseRankLineTest, AMarkSaysThatALineIsOfStderrAndPeopleDoNotSeeIt) {
  const RankLine line = ParseRankLine(Format::kPrefix, "[m1 r7 err] [m0 r1 err] lost");
  EXPECT_EQ(line.rank, 7u);
  EXPECT_EQ(line.stream, StdStream::kErr);
  EXPECT_EQ(line.text, "[m0 r1 err] lost");
  EXPECT_EQ(WithoutMark("[m1 r7 err] [m0 r1 err] lost"), "[m1 r7] [m0 r1 err] lost");
  for (const char* text : {"[m1 r7] a err] b", "a err] b", " err]", "]", "", "[m1 r7 err"}) {
    EXPECT_EQ(WithoutMark(text), text);
  }
}

TEST(ParseRankLineTest, AJsonLineSaysItsRankStreamAndText) {
  const RankLine line = ParseRankLine(
      Format::kJson, R"({"machine":1,"rank":7,"stream":"stderr","message":"a \"b\""})");
  EXPECT_EQ(line.rank, 7u);
  EXPECT_EQ(line.stream, StdStream::kErr);
  EXPECT_EQ(line.text, "a \"b\"");
  EXPECT_EQ(ParseRankLine(Format::kJson, R"({"rank":0,"stream":"stdout"})").stream,
            StdStream::kOut);
}

TEST(ParseRankLineTest, ALineOfAnotherFormIsKeptWholeWithoutARank) {
  for (const Format format : {Format::kPrefix, Format::kJson, Format::kRaw}) {
    for (const char* text : {"lockstep-agent: 3 lines were dropped", "[m0 r", "[m0 rx] a",
                             R"({"rank":-1})", R"({"rank":"7"})", "{", ""}) {
      const RankLine line = ParseRankLine(format, text);
      EXPECT_EQ(line.rank, std::nullopt) << text;
      EXPECT_EQ(line.text, text);
    }
  }
  EXPECT_EQ(ParseRankLine(Format::kRaw, "[m0 r3] a").rank, std::nullopt);
}

}  // namespace
}  // namespace lockstep::cli::log_lines_test
