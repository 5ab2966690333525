#include "core/gang/diagnosis/machine_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/gang/status/status_api.h"

namespace lockstep::core::machine_progress_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RankProgress Rank(uint32_t number, int64_t step, double loss, double waited) {
  RankProgress rank;
  rank.rank = number;
  rank.step = step;
  rank.loss = loss;
  rank.tokens_per_second = 100;
  rank.waits = 10;
  rank.waited = waited;
  return rank;
}

std::map<uint32_t, RankProgress> Ranks(const std::vector<RankProgress>& list) {
  std::map<uint32_t, RankProgress> ranks;
  for (const RankProgress& rank : list) ranks[rank.rank] = rank;
  return ranks;
}

TEST(MachineProgressTest, ARowHasTheLeastAndTheMostOfItsRanks) {
  const MachineProgress rows = ProgressByMachine(
      Ranks({Rank(0, 7, 2.5, 1), Rank(1, 5, 2.25, 3), Rank(2, 6, 1, 2), Rank(3, 6, 1, 0.5)}), 2,
      {});
  EXPECT_THAT(rows.machine, ElementsAre(0, 1));
  EXPECT_THAT(rows.ranks, ElementsAre(2, 2));
  EXPECT_THAT(rows.step, ElementsAre(5, 6));
  EXPECT_THAT(rows.step_most, ElementsAre(7, 6));
  EXPECT_THAT(rows.loss, ElementsAre(2.25, 1));
  EXPECT_THAT(rows.loss_most, ElementsAre(2.5, 1));
  EXPECT_THAT(rows.tokens_per_second, ElementsAre(200, 200));
  EXPECT_THAT(rows.waited, ElementsAre(1, 0.5));
  EXPECT_THAT(rows.waited_most, ElementsAre(3, 2));
  EXPECT_TRUE(IsWhole(rows));
}

TEST(MachineProgressTest, PlacesAreTheMembersMachinesAndSilentMachinesHaveNoRow) {
  const MachineProgress rows =
      ProgressByMachine(Ranks({Rank(0, 1, 1, 0), Rank(5, 1, 1, 0)}), 2, Members::Of({3, 5, 8}));
  EXPECT_THAT(rows.machine, ElementsAre(3, 8));
  EXPECT_THAT(rows.ranks, ElementsAre(1, 1));
}

TEST(MachineProgressTest, ALossThatNotAllMachinesReportIsLeftOut) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const MachineProgress rows =
      ProgressByMachine(Ranks({Rank(0, 1, 1, 0), Rank(1, 1, none, 0)}), 1, {});
  EXPECT_THAT(rows.loss, IsEmpty());
  EXPECT_THAT(rows.loss_most, IsEmpty());
  EXPECT_TRUE(IsWhole(rows));
}

TEST(MachineProgressTest, TheLargestGangFitsIntoAnAnswer) {
  GangStatus status;
  std::map<uint32_t, RankProgress> ranks;
  for (uint32_t machine = 0; machine < Members::kMost; ++machine) {
    auto& row = status.machines.emplace_back();
    row.index = machine;
    row.attempt = 12;
    row.state = GangMachineState::kRunning;
    row.silent_for = nanoseconds(123'456'789);
    row.connected = true;
    for (uint32_t i = 0; i < 8; ++i) {
      RankProgress rank = Rank(machine * 8 + i, 1'000'000'000, 1.23456789, 12345.678901);
      rank.total_steps = 2'000'000'000;
      rank.tokens_per_second = 123456.789;
      rank.waits = 1'000'000'000;
      ranks[rank.rank] = rank;
      if (status.progress.size() < kMaxProgressInStatus) status.progress.push_back(rank);
    }
  }
  status.by_machine = ProgressByMachine(ranks, 8, {});
  const std::string json = ToJson(status);
  EXPECT_LT(json.size(), kMaxStatusBody);
  const Result<GangStatus> read = ParseGangStatus(json);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->by_machine, status.by_machine);
}

TEST(MachineProgressTest, ColumnsOfDifferentLengthsAreNotTaken) {
  GangStatus status;
  status.by_machine = ProgressByMachine(Ranks({Rank(0, 1, 1, 0), Rank(1, 1, 1, 0)}), 1, {});
  status.by_machine.waited.pop_back();
  const Result<GangStatus> read = ParseGangStatus(ToJson(status));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_THAT(read->by_machine.machine, IsEmpty());
}

}  // namespace
}  // namespace lockstep::core::machine_progress_test
