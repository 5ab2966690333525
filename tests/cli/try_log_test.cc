#include "cli/try_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(TryLogTest, ShowsWhatIsFoundAndWhatIsNotBelieved) {
  TryLog log;
  log.Feed("step 10/300 loss 2.5\nstep 20/300 lo");
  log.Feed("ss 2.4\neval step 1 loss 9\n");
  log.Finish();
  EXPECT_THAT(log.Text("train.log"),
              AllOf(HasSubstr("train.log: 3 lines\n"), HasSubstr("step    20 of 300\n"),
                    HasSubstr("loss  2.4\n"), HasSubstr("found by \"step\" in 2 lines such as\n"),
                    HasSubstr("is rejected"), HasSubstr("\"eval\"")));
  const OrderedJson json = log.ToJson();
  EXPECT_EQ(json["progress"]["step"], 20);
  EXPECT_EQ(json["progress"]["total"], 300);
  EXPECT_EQ(json["progress"]["loss"], 2.4);
  EXPECT_EQ(json["series"].size(), 2u);
}

TEST(TryLogTest, SaysThatNothingIsFound) {
  TryLog log;
  log.Feed("hello\n");
  log.Finish();
  EXPECT_THAT(log.Text("x"), HasSubstr("no progress is found\n"));
  EXPECT_TRUE(log.ToJson()["progress"].is_null());
  EXPECT_THAT(TryLog().Text("empty"), HasSubstr("empty: 0 lines\nno progress is found\n"));
}

TEST(TryLogTest, TakesRanksApartThatARunPrintsTogether) {
  TryLog log;
  for (int i = 1; i < 4; ++i) {
    std::string lines = "[m0 r1] step ";
    lines.append(std::to_string(i * 100)).append(" loss 2.5\n[m0 r0] step ");
    lines.append(std::to_string(i * 10)).append(" loss 2.4\n");
    log.Feed(lines);
  }
  log.Finish();
  EXPECT_THAT(log.Text("run.log"), AllOf(HasSubstr("shown is rank 0"), HasSubstr("step    30\n")));
}

TEST(TryLogTest, ShowsNoControlCharactersOfTheLog) {
  TryLog log;
  log.Feed("step 1 loss 2 \x1b[31m\x01\nstep 2 loss 2 \x1b[31m\x01\n");
  log.Finish();
  EXPECT_THAT(log.Text("x"), AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\x01"))));
}

}  // namespace
}  // namespace lockstep::cli
