#include "worker/trainer/collectives/store/blame.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::collectives {
namespace {

TEST(BlameTest, ASilentRankComesBeforeOneThatIsOnlyBehind) {
  const Failure failure = Blame({{9, 8, {}}, {7, 7, {}}, {9, 8, seconds(4)}}, {0, -1, "barrier 9"});
  EXPECT_EQ(failure.rank, 2);
  EXPECT_EQ(failure.error.kind, ErrorKind::kTimeout);
  EXPECT_EQ(failure.error.message,
            "rank 0 waits for barrier 9: rank 2 stopped answering 4.0 s ago (stopped, or its "
            "machine hangs)");
}

TEST(BlameTest, TheRankThatIssuedTheFewestOperationsIsBehind) {
  const Failure failure = Blame({{9, 8, {}}, {7, 7, {}}, {9, 8, {}}}, {2, -1, "barrier 8"});
  EXPECT_EQ(failure.rank, 1);
  EXPECT_EQ(failure.error.message,
            "rank 2 waits for barrier 8: rank 1 issued only 7 operations and is busy elsewhere");
}

TEST(BlameTest, TheOtherEndOfALateReceiveIsBehind) {
  const Failure failure = Blame({{9, 9, {}}, {9, 9, {}}, {3, 3, {}}}, {0, 1, "receive 4"});
  EXPECT_EQ(failure.rank, 1);
}

TEST(BlameTest, WhereAllIssuedItNobodyIsToBlame) {
  const Failure failure = Blame({{9, 8, {}}, {9, 8, {}}}, {0, -1, "barrier 9"});
  EXPECT_EQ(failure.rank, -1);
  EXPECT_NE(failure.error.message.find("check the network"), std::string::npos);
}

TEST(BlameTest, RanksAreNamedAsPeopleDoAndLongListsAreCut) {
  EXPECT_EQ(NameRanks({3}), "rank 3");
  EXPECT_EQ(NameRanks({3, 5}), "ranks 3 and 5");
  EXPECT_EQ(NameRanks({1, 2, 3, 4, 5, 6, 7, 8}), "ranks 1, 2, 3, 4, 5, 6, 7 and 8");
  EXPECT_EQ(NameRanks({1, 2, 3, 4, 5, 6, 7, 8, 9}), "ranks 1, 2, 3, 4, 5, 6, 7 and 2 others");
}

}  // namespace
}  // namespace lockstep::collectives
