#include "worker/agent/departure.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/base/loop_test_base.h"

namespace lockstep::agent {
namespace {

class DepartureTest : public LoopTest {
 protected:
  Departure Make(Duration patience = minutes(5)) {
    return Departure(
        loop(),
        [this] {
          ++asked_;
          return hold_;
        },
        [this] { ++gone_; }, patience);
  }

  Departure::Hold hold_ = Departure::Hold::kNone;
  int asked_ = 0;
  int gone_ = 0;
};

TEST_F(DepartureTest, DoesNotGoBeforeItBegins) {
  Departure departure = Make();
  departure.Check();
  EXPECT_EQ(asked_, 0);
  EXPECT_EQ(gone_, 0);
}

TEST_F(DepartureTest, GoesOnceWhenNothingHoldsIt) {
  Departure departure = Make();
  EXPECT_TRUE(departure.Begin({75, std::nullopt, "lost"}));
  departure.Check();
  departure.Check();
  EXPECT_EQ(gone_, 1);
}

TEST_F(DepartureTest, FirstExitCounts) {
  Departure departure = Make();
  EXPECT_TRUE(departure.Begin({75, std::nullopt, "lost"}));
  EXPECT_FALSE(departure.Begin({1, std::nullopt, "late"}));
  EXPECT_EQ(departure.exit()->code, 75);
}

TEST_F(DepartureTest, WaitsForTheEndOfWhatHoldsIt) {
  Departure departure = Make();
  hold_ = Departure::Hold::kEvents;
  departure.Begin({});
  departure.Check();
  Settle();
  EXPECT_EQ(gone_, 0);
  hold_ = Departure::Hold::kNone;
  departure.Check();
  EXPECT_EQ(gone_, 1);
}

TEST_F(DepartureTest, AsksAgainWhetherLogsHaveDrained) {
  Departure departure = Make();
  hold_ = Departure::Hold::kDraining;
  departure.Begin({});
  departure.Check();
  EXPECT_TRUE(RunUntil([this] { return asked_ >= 3; }));
  EXPECT_EQ(gone_, 0);
  hold_ = Departure::Hold::kNone;
  EXPECT_TRUE(RunUntil([this] { return gone_ == 1; }));
}

TEST_F(DepartureTest, GoesAtTheLimitWhateverHoldsIt) {
  Departure departure = Make(milliseconds(1));
  hold_ = Departure::Hold::kEvents;
  departure.Begin({});
  departure.Check();
  EXPECT_TRUE(RunUntil([this] { return gone_ == 1; }));
}

}  // namespace
}  // namespace lockstep::agent
