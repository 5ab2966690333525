#include "cli/ui/log_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace lockstep::cli::log_ring_test {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Texts(const OrderedJson& lines) {
  std::vector<std::string> texts;
  for (const OrderedJson& line : lines) texts.push_back(line["m"]);
  return texts;
}

void Add(LogRing& ring, uint32_t rank, std::string_view text) {
  ring.Add(rank, 1.5, StdStream::kUnknown, text);
}

TEST(LogRingTest, ARanksLinesAreAnsweredBehindTheOneThatIsKnown) {
  LogRing ring;
  Add(ring, 3, "a");
  Add(ring, 4, "other");
  ring.Add(3, 2.25, StdStream::kErr, "b");
  const OrderedJson all = ring.Answer(3, 0);
  EXPECT_THAT(Texts(all["lines"]), ElementsAre("a", "b"));
  EXPECT_EQ(all["next"], 3);
  EXPECT_EQ(all["skipped"], 0);
  EXPECT_EQ(all["lines"][1], OrderedJson::parse(R"({"n":3,"t":2.25,"r":3,"s":"err","m":"b"})"));
  EXPECT_THAT(Texts(ring.Answer(3, 1)["lines"]), ElementsAre("b"));
  EXPECT_TRUE(ring.Answer(3, 3)["lines"].empty());
  EXPECT_TRUE(ring.Answer(9, 0)["lines"].empty());
}

TEST(LogRingTest, LinesOfAllRanksComeInTheOrderInWhichTheyCame) {
  LogRing ring;
  for (int i = 0; i < 20; ++i) Add(ring, static_cast<uint32_t>(i * 7 % 5), std::to_string(i));
  std::vector<std::string> expected;
  for (int i = 0; i < 20; ++i) expected.push_back(std::to_string(i));
  EXPECT_EQ(Texts(ring.Answer(std::nullopt, 0)["lines"]), expected);
}

TEST(LogRingTest, AnAnswerHasTheNewestLinesAndSaysHowManyItLeavesOut) {
  LogRing ring;
  for (int i = 1; i <= 1500; ++i) Add(ring, static_cast<uint32_t>(i % 2), std::to_string(i));
  const OrderedJson all = ring.Answer(std::nullopt, 100);
  EXPECT_EQ(all["lines"].size(), LogRing::kMostInAnswer);
  EXPECT_EQ(all["lines"].front()["m"], "501");
  EXPECT_EQ(all["lines"].back()["m"], "1500");
  EXPECT_EQ(all["skipped"], 400);
}

TEST(LogRingTest, ARankKeepsItsNewestLinesByNumberAndByBytes) {
  LogRing by_number({.lines = 3});
  for (const char* text : {"a", "b", "c", "d"}) Add(by_number, 0, text);
  EXPECT_THAT(Texts(by_number.Answer(0, 0)["lines"]), ElementsAre("b", "c", "d"));
  EXPECT_EQ(by_number.Answer(0, 0)["skipped"], 1);
  EXPECT_EQ(by_number.Answer(std::nullopt, 0)["skipped"], 1);
  LogRing by_bytes({.bytes = 2 * (LogRing::kLineCost + 10)});
  for (const char* text : {"a", "b", "0123456789ABC"}) Add(by_bytes, 0, text);
  EXPECT_THAT(Texts(by_bytes.Answer(0, 0)["lines"]), ElementsAre("b", "0123456789ABC"));
}

TEST(LogRingTest, BeyondTheBoundOfAllRanksTheOldestLineOfAllGoes) {
  LogRing ring({.in_all = 3 * (LogRing::kLineCost + 1)});
  Add(ring, 0, "a");
  Add(ring, 1, "b");
  Add(ring, 1, "c");
  Add(ring, 1, "d");
  EXPECT_TRUE(ring.Answer(0, 0)["lines"].empty());
  EXPECT_THAT(Texts(ring.Answer(1, 0)["lines"]), ElementsAre("b", "c", "d"));
  Add(ring, 0, "e");
  EXPECT_THAT(Texts(ring.Answer(std::nullopt, 0)["lines"]), ElementsAre("c", "d", "e"));
}

TEST(LogRingTest, NoFloodOfAnyShapeTakesMoreThanItsBounds) {
  const LogRingLimits limits{.lines = 50, .bytes = size_t{16} << 10, .in_all = size_t{64} << 10};
  LogRing ring(limits);
  const std::string loud(10'000, 'x');
  for (uint32_t i = 0; i < 3000; ++i) {
    Add(ring, i % 300,
        i % 3 == 0 ? std::string_view() : std::string_view(loud).substr(0, i % 9999));
    ASSERT_LE(ring.bytes(), limits.in_all);
  }
}

TEST(LogRingTest, ALongLineIsCutAndColorsAreTakenOut) {
  LogRing ring;
  Add(ring, 0, std::string(10'000, 'x'));
  Add(ring, 0, "\x1b[1;31mred\x1b[0m and \x1b[2Kplain\x1b[");
  const OrderedJson lines = ring.Answer(0, 0)["lines"];
  EXPECT_LE(lines[0]["m"].get<std::string>().size(), LogRing::kMostOfLine);
  EXPECT_TRUE(lines[0]["m"].get<std::string>().ends_with("..."));
  EXPECT_EQ(lines[1]["m"], "red and plain");
}

TEST(LogRingTest, TailsHaveTheLastLinesOfEachRankAndAShareOfTheBytesForEach) {
  LogRing ring;
  for (int i = 0; i < 5; ++i) Add(ring, 0, std::to_string(i));
  Add(ring, 11, "one");
  const OrderedJson tails = ring.Tails(2, size_t{1} << 20);
  EXPECT_EQ(tails.size(), 2u);
  EXPECT_THAT(Texts(tails["0"]), ElementsAre("3", "4"));
  EXPECT_THAT(Texts(tails["11"]), ElementsAre("one"));
  EXPECT_THAT(Texts(ring.Tails(5, 2 * (LogRing::kLineCost + 3))["0"]), ElementsAre("4"));
  EXPECT_EQ(LogRing().Tails(5, 100), OrderedJson::object());
}

}  // namespace
}  // namespace lockstep::cli::log_ring_test
