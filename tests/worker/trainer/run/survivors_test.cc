#include "worker/trainer/run/survivors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "tests/worker/trainer/collectives/ranks.h"

namespace lockstep::trainer::survivors_test {
namespace {

using collectives::Communicator;
using collectives::DataType;

constexpr Shape kShape = {.layers = 1, .heads = 2, .width = 32, .vocabulary = 128, .context = 8};

// What a rank has after `step`: every number of it tells of the step.
Kept After(int64_t step) {
  Kept kept{.replica = Replica(kShape), .at = {.step = step, .cursor = step * 8}};
  std::ranges::fill(kept.replica.parameters, static_cast<float>(step));
  std::ranges::fill(kept.replica.moment1, static_cast<float>(step) + 0.25F);
  std::ranges::fill(kept.replica.moment2, static_cast<float>(step) + 0.5F);
  return kept;
}

void ExpectAfter(const std::optional<Kept>& kept, int64_t step) {
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->at.step, step);
  EXPECT_EQ(kept->at.cursor, step * 8);
  const Kept expected = After(step);
  EXPECT_EQ(kept->replica.parameters, expected.replica.parameters);
  EXPECT_EQ(kept->replica.moment1, expected.replica.moment1);
  EXPECT_EQ(kept->replica.moment2, expected.replica.moment2);
}

// What each rank has afterwards, and whose it is.
struct Taken {
  std::vector<std::optional<Kept>> kept;
  std::vector<std::optional<int>> from;
};

Taken Take(std::vector<std::optional<Kept>> kept) {
  Taken taken{.kept = std::move(kept), .from = {}};
  taken.from.resize(taken.kept.size());
  collectives::RunRanks(static_cast<int>(taken.kept.size()), [&](Communicator& all) {
    Threads threads(1);
    const auto mine = static_cast<size_t>(all.rank());
    const Result<std::optional<int>> from = TakeFurthest(taken.kept[mine], kShape, all, threads);
    ASSERT_TRUE(from.ok()) << from.error().message;
    taken.from[mine] = *from;
  });
  return taken;
}

TEST(TakeFurthest, SaysThatNoRankHasAny) {
  const Taken taken = Take(std::vector<std::optional<Kept>>(2));
  for (const std::optional<int>& from : taken.from) EXPECT_FALSE(from);
  for (const std::optional<Kept>& kept : taken.kept) EXPECT_FALSE(kept);
}

TEST(TakeFurthest, GivesTheFurthestStateToWhoIsBehindAndToWhoIsNew) {
  std::vector<std::optional<Kept>> before(3);
  before[1] = After(5);
  before[1]->untold = StepRecord{.step = 5};
  before[2] = After(6);
  before[2]->skipped_in_a_row = 3;
  before[2]->stop = true;
  const Taken taken = Take(std::move(before));
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(taken.from[rank], 2);
    ExpectAfter(taken.kept[rank], 6);
    EXPECT_EQ(taken.kept[rank]->skipped_in_a_row, 3);
    EXPECT_TRUE(taken.kept[rank]->stop);
    EXPECT_FALSE(taken.kept[rank]->untold) << "it is of a step that another told";
  }
}

TEST(TakeFurthest, LeavesWhoIsAsFarWhatItHasNotTold) {
  std::vector<std::optional<Kept>> before(3);
  before[0] = After(6);
  before[2] = After(6);
  before[2]->untold = StepRecord{.step = 6};
  const Taken taken = Take(std::move(before));
  for (size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(taken.from[rank], 0);
    ExpectAfter(taken.kept[rank], 6);
  }
  EXPECT_TRUE(taken.kept[2]->untold);
}

TEST(TakeFurthest, CountsTheStateBeforeTheFirstStep) {
  std::vector<std::optional<Kept>> before(2);
  before[1] = After(0);
  const Taken taken = Take(std::move(before));
  EXPECT_EQ(taken.from[0], 1);
  ExpectAfter(taken.kept[0], 0);
}

// Rank 1 sends as TakeFurthest does, up to the parameters, and is gone.
void DieWhileSending(Communicator& all) {
  Kept mine = After(6);
  std::vector<int64_t> steps(2);
  ASSERT_TRUE(all.AllGather({&mine.at.step, 1, DataType::kInt64},
                            {steps.data(), steps.size(), DataType::kInt64}, "")
                  .ok());
  std::array<int64_t, 7> message{6, 48, 6};
  ASSERT_TRUE(all.Broadcast({message.data(), sizeof message, DataType::kByte}, 1, "").ok());
  std::vector<float>& parameters = mine.replica.parameters;
  ASSERT_TRUE(
      all.Broadcast({parameters.data(), parameters.size(), DataType::kFloat32}, 1, "").ok());
  all.Abort("it dies");
}

TEST(TakeFurthest, LeavesWhoIsBehindWhatItHasWhenTheFurthestDiesWhileItSends) {
  collectives::Options options = collectives::TestOptions(2);
  options.on_failure = [](const Error&) {};
  std::optional<Kept> behind = After(5);
  std::thread furthest([options]() mutable {
    options.rank = 1;
    Result<std::unique_ptr<Communicator>> all = collectives::Connect(options);
    ASSERT_TRUE(all.ok()) << all.error().message;
    DieWhileSending(**all);
  });
  Result<std::unique_ptr<Communicator>> all = collectives::Connect(options);
  ASSERT_TRUE(all.ok()) << all.error().message;
  Threads threads(1);
  const Result<std::optional<int>> from = TakeFurthest(behind, kShape, **all, threads);
  furthest.join();
  ASSERT_FALSE(from.ok());
  EXPECT_EQ(from.error().kind, ErrorKind::kUnavailable) << from.error().message;
  ExpectAfter(behind, 5);
}

}  // namespace
}  // namespace lockstep::trainer::survivors_test
