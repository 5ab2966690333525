// Every operation, at every small world, against what it is defined to do.
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/collectives.h"

namespace lockstep::collectives {
namespace {

Span Of(std::vector<int64_t>& values) { return {values.data(), values.size(), DataType::kInt64}; }

class OperationsTest : public testing::TestWithParam<int> {
 protected:
  // Elements: nothing, less than ranks, odd, and above all chunk sizes.
  static constexpr size_t kCounts[] = {0, 1, 3, 1001, 200'003};
};
INSTANTIATE_TEST_SUITE_P(Worlds, OperationsTest, testing::Values(1, 2, 3, 4, 5, 8));

std::vector<int64_t> Values(int rank, size_t count) {
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<int64_t>(i) * 7 + 1000 * (rank + 1);
  }
  return values;
}

TEST_P(OperationsTest, AllReduceAddsWhatAllRanksHold) {
  RunRanks(GetParam(), [](Communicator& all) {
    for (const size_t count : kCounts) {
      std::vector<int64_t> mine = Values(all.rank(), count);
      std::vector<int64_t> want(count);
      for (int rank = 0; rank < all.world(); ++rank) {
        const std::vector<int64_t> theirs = Values(rank, count);
        for (size_t i = 0; i < count; ++i) want[i] += theirs[i];
      }
      ASSERT_TRUE(all.AllReduce(Of(mine), Reduction::kSum, "sum").ok());
      EXPECT_EQ(mine, want);
    }
  });
}

// Groups of two ranks that stand `stride` apart; where the world is odd, the last ones are alone.
RankGroup PairOf(int rank, int world) {
  const int stride = world / 2;
  const int first = rank % stride;
  if (rank >= 2 * stride) return {rank, 1, 1};
  return {first, stride, 2};
}

TEST_P(OperationsTest, AllReduceWithinAddsWhatTheGroupHolds) {
  if (GetParam() < 2) return;
  RunRanks(GetParam(), [](Communicator& all) {
    const RankGroup group = PairOf(all.rank(), all.world());
    for (size_t count : kCounts) {
      count += static_cast<size_t>(group.first);  // groups may differ
      std::vector<int64_t> mine = Values(all.rank(), count);
      std::vector<int64_t> want(count);
      for (int member = 0; member < group.size; ++member) {
        const std::vector<int64_t> theirs = Values(group.RankOf(member), count);
        for (size_t i = 0; i < count; ++i) want[i] += theirs[i];
      }
      ASSERT_TRUE(
          all.AllReduceWithin(group, Of(mine), Reduction::kSum, "sum", nullptr).Wait().ok());
      EXPECT_EQ(mine, want);
    }
    // Of all ranks again.
    std::vector<int64_t> one{1};
    ASSERT_TRUE(all.AllReduce(Of(one), Reduction::kSum, "one").ok());
    EXPECT_EQ(one[0], all.world());
  });
}

TEST_P(OperationsTest, AGroupWithoutItsRankIsRefused) {
  RunRanks(GetParam(), [](Communicator& all) {
    std::vector<int64_t> values{1};
    for (const RankGroup& group :
         {RankGroup{all.rank() + 1, 1, 1}, RankGroup{0, 1, all.world() + 1}, RankGroup{0, 0, 1},
          RankGroup{0, 1, 0}}) {
      const Status done =
          all.AllReduceWithin(group, Of(values), Reduction::kSum, "sum", nullptr).Wait();
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().kind, ErrorKind::kInvalid);
    }
  });
}

TEST_P(OperationsTest, AnExchangeIsRefusedInHostMemory) {
  if (GetParam() < 2) return;
  RunRanks(GetParam(), [](Communicator& all) {
    std::vector<int64_t> mine(1);
    std::vector<int64_t> other(1);
    const int peer = (all.rank() + 1) % all.world();
    const Status done = all.ExchangeAsync(Of(mine), Of(other), peer, "ring", nullptr).Wait();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::kInvalid);
  });
}

// Each rank posts to the next one before it receives: with Send all would wait for each other.
TEST_P(OperationsTest, WhatIsPostedIsACopyAndWaitsForItsReceiver) {
  if (GetParam() < 2) return;
  RunRanks(GetParam(), [](Communicator& all) {
    const int next = (all.rank() + 1) % all.world();
    const int before = (all.rank() + all.world() - 1) % all.world();
    std::vector<int64_t> mine = Values(all.rank(), 100'003);
    for (int round = 0; round < 5; ++round) {
      ASSERT_TRUE(all.Post(Of(mine), next, 3, "post").ok());
      mine[0] += 1;
      if (round < 2) continue;
      std::vector<int64_t> got(mine.size());
      ASSERT_TRUE(all.Receive(Of(got), before, "receive").ok());
      std::vector<int64_t> want = Values(before, got.size());
      want[0] += round - 2;
      EXPECT_EQ(got, want);
    }
    for (int left = 0; left < 2; ++left) {
      std::vector<int64_t> got(mine.size());
      ASSERT_TRUE(all.Receive(Of(got), before, "receive").ok());
    }
    ASSERT_TRUE(all.Barrier("all received").ok());
  });
}

TEST_P(OperationsTest, MinAndMaxComeFromTheFirstAndTheLastRank) {
  RunRanks(GetParam(), [](Communicator& all) {
    std::vector<int64_t> low = Values(all.rank(), 5000);
    std::vector<int64_t> high = low;
    ASSERT_TRUE(all.AllReduce(Of(low), Reduction::kMin, "min").ok());
    ASSERT_TRUE(all.AllReduce(Of(high), Reduction::kMax, "max").ok());
    EXPECT_EQ(low, Values(0, 5000));
    EXPECT_EQ(high, Values(all.world() - 1, 5000));
  });
}

TEST_P(OperationsTest, BroadcastGivesAllTheRootsValuesWhoeverItIs) {
  RunRanks(GetParam(), [](Communicator& all) {
    for (int root = 0; root < all.world(); ++root) {
      for (const size_t count : kCounts) {
        std::vector<int64_t> mine = Values(all.rank(), count);
        ASSERT_TRUE(all.Broadcast(Of(mine), root, "parameters").ok());
        EXPECT_EQ(mine, Values(root, count));
      }
    }
  });
}

TEST_P(OperationsTest, ReduceScatterLeavesEachRankItsPart) {
  RunRanks(GetParam(), [](Communicator& all) {
    const auto world = static_cast<size_t>(all.world());
    const auto me = static_cast<size_t>(all.rank());
    for (const size_t count : kCounts) {
      std::vector<int64_t> in = Values(all.rank(), count * world);
      std::vector<int64_t> out(count);
      std::vector<int64_t> want(count);
      for (int rank = 0; rank < all.world(); ++rank) {
        const std::vector<int64_t> theirs = Values(rank, count * world);
        for (size_t i = 0; i < count; ++i) want[i] += theirs[me * count + i];
      }
      ASSERT_TRUE(all.ReduceScatter(Of(in), Of(out), Reduction::kSum, "shard").ok());
      EXPECT_EQ(out, want);
      EXPECT_EQ(in, Values(all.rank(), count * world));
    }
  });
}

TEST_P(OperationsTest, AllGatherLaysThePartsInRankOrder) {
  RunRanks(GetParam(), [](Communicator& all) {
    const auto world = static_cast<size_t>(all.world());
    for (const size_t count : kCounts) {
      std::vector<int64_t> want;
      for (int rank = 0; rank < all.world(); ++rank) {
        const std::vector<int64_t> theirs = Values(rank, count);
        want.insert(want.end(), theirs.begin(), theirs.end());
      }
      std::vector<int64_t> in = Values(all.rank(), count);
      std::vector<int64_t> out(count * world);
      ASSERT_TRUE(all.AllGather(Of(in), Of(out), "apart").ok());
      EXPECT_EQ(out, want);
      std::vector<int64_t> whole(count * world);
      int64_t* own = whole.data() + count * static_cast<size_t>(all.rank());
      std::copy(in.begin(), in.end(), own);
      ASSERT_TRUE(all.AllGather({own, count, DataType::kInt64}, Of(whole), "in place").ok());
      EXPECT_EQ(whole, want);
    }
  });
}

TEST_P(OperationsTest, ValuesGoRoundTheRanksBySendAndReceive) {
  RunRanks(GetParam(), [](Communicator& all) {
    if (all.world() == 1) return;
    const int next = (all.rank() + 1) % all.world();
    const int previous = (all.rank() + all.world() - 1) % all.world();
    for (const size_t count : kCounts) {
      std::vector<int64_t> mine = Values(all.rank(), count);
      std::vector<int64_t> theirs(count);
      const auto send = [&] { ASSERT_TRUE(all.Send(Of(mine), next, "on").ok()); };
      const auto receive = [&] { ASSERT_TRUE(all.Receive(Of(theirs), previous, "on").ok()); };
      if (all.rank() == 0) send();
      receive();
      if (all.rank() != 0) send();
      EXPECT_EQ(theirs, Values(previous, count));
    }
  });
}

TEST_P(OperationsTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  std::atomic<int> came{0};
  RunRanks(GetParam(), [&](Communicator& all) {
    for (int round = 1; round <= 20; ++round) {
      ++came;
      ASSERT_TRUE(all.Barrier("round").ok());
      EXPECT_GE(came.load(), round * all.world());
    }
  });
}

TEST_P(OperationsTest, AsynchronousAllreducesEndInTheirOrder) {
  RunRanks(GetParam(), [](Communicator& all) {
    std::vector<std::vector<int64_t>> buckets(10, std::vector<int64_t>(3000, all.rank() + 1));
    std::vector<Work> works;
    for (auto& bucket : buckets) {
      works.push_back(all.AllReduceAsync(Of(bucket), Reduction::kSum, "bucket"));
    }
    ASSERT_TRUE(works.back().Wait().ok());
    for (const Work& work : works) EXPECT_TRUE(work.done());
    const int64_t sum = all.world() * (all.world() + 1) / 2;
    for (const auto& bucket : buckets) EXPECT_EQ(bucket, std::vector<int64_t>(3000, sum));
  });
}

}  // namespace
}  // namespace lockstep::collectives
