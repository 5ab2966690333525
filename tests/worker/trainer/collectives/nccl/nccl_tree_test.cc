// Sums over NCCL by the tree: the same bits as on Gloo, in whatever order NCCL itself would add.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/gloo/reduce.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/nccl/tree_sum.h"

namespace lockstep::collectives::nccl_tree_test {
namespace {

using ::testing::HasSubstr;

// Values whose sums depend on the order of addition.
std::vector<float> Rough(size_t count, int rank) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = 1.0F / (1.0F + static_cast<float>((i * 7 + static_cast<size_t>(rank) * 13) % 1009));
  return values;
}

std::vector<float> TreeOf(size_t count, const RankGroup& group) {
  std::vector<std::vector<float>> all;
  std::vector<const void*> sources;
  for (int i = 0; i < group.size; ++i) all.push_back(Rough(count, group.RankOf(i)));
  for (const auto& values : all) sources.push_back(values.data());
  std::vector<float> sum(count);
  ReduceTree(Reduction::kSum, DataType::kFloat32, sources, count, sum.data());
  return sum;
}
std::vector<float> TreeOfAll(size_t count, int world) { return TreeOf(count, {0, 1, world}); }

Operation Sum(OperationKind kind, const float* in, size_t in_count, float* out, size_t out_count) {
  Operation operation;
  operation.kind = kind;
  operation.in = {in, in_count, DataType::kFloat32};
  operation.out = {out, out_count, DataType::kFloat32};
  operation.deadline = In(seconds(60));
  return operation;
}

// All ranks' Rough(count), added up by operations of `bucket` elements.
std::vector<float> SumsBy(Rank& rank, Transport& nccl, size_t count, size_t bucket) {
  const DeviceMemory memory = rank.ToDevice(Rough(count, rank.rank()));
  for (size_t at = 0; at < count; at += bucket) {
    float* const data = static_cast<float*>(memory.data()) + at;
    const size_t now = std::min(bucket, count - at);
    Rank::Must(RunToEnd(nccl, Sum(OperationKind::kAllReduce, data, now, data, now)));
  }
  return rank.ToHost<float>(memory);
}

class NcclTree : public ::testing::TestWithParam<std::tuple<int, std::string>> {
 protected:
  static int World() { return std::get<0>(GetParam()); }
  static void SetSums() { Rank::Set("FAKE_SUMS", std::get<1>(GetParam())); }
};
INSTANTIATE_TEST_SUITE_P(Of, NcclTree,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4, 8),
                                            ::testing::Values("ring", "nvls")));

TEST_P(NcclTree, AddsToTheBitsOfGloosTreeWhateverTheSize) {
  RunRanks(World(), [](Rank& rank) {
    SetSums();
    Rank::Set("FAKE_ALIGNED", "1");
    const auto nccl = rank.Connect();
    for (const size_t count : std::initializer_list<size_t>{1, 2, 3, 4, 5, 2047, 2048, 2049, 10'004,
                                                            10'005, 10'006, 10'007, 100'003}) {
      ASSERT_EQ(SumsBy(rank, *nccl, count, count), TreeOfAll(count, rank.world())) << count;
    }
  });
}

TEST_P(NcclTree, AddsToTheSameBitsInBucketsOfAnySize) {
  RunRanks(World(), [](Rank& rank) {
    SetSums();
    // Several rounds for each of them.
    const auto nccl = rank.Connect({.staging = 8192});
    const auto whole = TreeOfAll(20'011, rank.world());
    for (const size_t bucket : std::initializer_list<size_t>{20'011, 9'973, 4'096})
      ASSERT_EQ(SumsBy(rank, *nccl, whole.size(), bucket), whole) << bucket;
  });
}

// Every other rank, and neighbours: as the copies of a stage and the ranks of one.
TEST_P(NcclTree, GroupsOfRanksAddUpByThemselvesToTheBitsOfTheirTree) {
  if (World() == 1) return;
  RunRanks(World(), [](Rank& rank) {
    SetSums();
    Rank::Set("FAKE_ALIGNED", "1");
    const auto nccl = rank.Connect({.staging = 8192});
    const int world = rank.world();
    const int odd = rank.rank() % 2;
    const int pair = rank.rank() - odd;
    const RankGroup others{odd, 2, (world + 1 - odd) / 2};
    const RankGroup neighbours{pair, 1, std::min(2, world - pair)};
    for (const RankGroup& group : {others, neighbours}) {
      // Groups differ in size; one has nothing.
      for (const size_t count : {size_t{7}, size_t{20'011}, size_t{4'096} * (group.first > 0)}) {
        const DeviceMemory memory = rank.ToDevice(Rough(std::max<size_t>(count, 1), rank.rank()));
        auto* data = static_cast<float*>(memory.data());
        Operation sum = Sum(OperationKind::kAllReduce, data, count, data, count);
        sum.group = group;
        Rank::Must(RunToEnd(*nccl, sum));
        if (count > 0) ASSERT_EQ(rank.ToHost<float>(memory), TreeOf(count, group)) << count;
      }
    }
  });
}

TEST(NcclGroupSums, OfAnythingButFloatsByTheTreeAreRefused) {
  RunRanks(2, [](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<int64_t>({1});
    Operation sum;
    sum.kind = OperationKind::kAllReduce;
    sum.in = sum.out = {memory.data(), 1, DataType::kInt64};
    sum.group = RankGroup{rank.rank(), 1, 1};
    sum.deadline = In(seconds(60));
    const Status done = rank.Connect()->Start(sum);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::kInvalid);
    EXPECT_THAT(done.error().message, HasSubstr("groups of ranks add up floats as a tree alone"));
  });
}

TEST_P(NcclTree, ReduceScatterHasTheTreesBitsToo) {
  RunRanks(World(), [](Rank& rank) {
    SetSums();
    const auto nccl = rank.Connect({.staging = 8192});
    const size_t part = 5'003;
    const size_t count = part * static_cast<size_t>(rank.world());
    const DeviceMemory in = rank.ToDevice(Rough(count, rank.rank()));
    const DeviceMemory out = rank.Allocate(part * sizeof(float));
    Rank::Must(
        RunToEnd(*nccl, Sum(OperationKind::kReduceScatter, static_cast<const float*>(in.data()),
                            count, static_cast<float*>(out.data()), part)));
    const auto whole = TreeOfAll(count, rank.world());
    const auto begin = whole.begin() + rank.rank() * static_cast<std::ptrdiff_t>(part);
    EXPECT_EQ(rank.ToHost<float>(out),
              std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(part)));
  });
}

// World, and ranks of a machine.
class NcclMachines : public ::testing::TestWithParam<std::tuple<int, int>> {};
INSTANTIATE_TEST_SUITE_P(Of, NcclMachines,
                         ::testing::Values(std::tuple(4, 2), std::tuple(8, 2), std::tuple(8, 4),
                                           std::tuple(6, 2)));

TEST_P(NcclMachines, AddUpTheirOwnRanksFirstToTheSameBits) {
  const auto [world, local] = GetParam();
  RunRanks(world, [local](Rank& rank) {
    Rank::Set("FAKE_SUMS", "ring");
    Options options = rank.MakeOptions();
    options.local_world = local;
    options.local_rank = rank.rank() % local;
    const auto nccl = rank.ConnectWith(options, {.staging = 16384});
    for (const size_t count : std::initializer_list<size_t>{100, 4'096, 20'011})
      ASSERT_EQ(SumsBy(rank, *nccl, count, count), TreeOfAll(count, rank.world())) << count;
  });
}

// Whether the machines' ranks add up first: it takes three launches of NCCL's in place of two, and
// five in place of three to warm up; the sixth of all fails.
bool AddsByMachine(int world, int local, bool isolated) {
  const std::vector<int> codes = ExitCodes(world, [=](Rank& rank) {
    Rank::Set("FAKE_ERROR_AT", "6");
    Options options = rank.MakeOptions();
    options.local_world = local;
    options.local_rank = isolated ? 0 : rank.rank() % local;
    const DeviceMemory memory = rank.ToDevice(Rough(10'000, rank.rank()));
    const auto nccl = rank.ConnectWith(options);
    auto* data = static_cast<float*>(memory.data());
    _exit(RunToEnd(*nccl, Sum(OperationKind::kAllReduce, data, 10'000, data, 10'000)).ok() ? 2 : 3);
  });
  return codes == std::vector<int>(static_cast<size_t>(world), 3);
}

TEST(NcclMachines, AreTakenWhereTheTreeHasThem) {
  EXPECT_TRUE(AddsByMachine(4, 2, false));
  EXPECT_TRUE(AddsByMachine(4, 2, true)) << "of processes that see their own GPU alone";
  EXPECT_FALSE(AddsByMachine(4, 4, false));
  EXPECT_FALSE(AddsByMachine(6, 2, false));
}

TEST(NcclTree, TakesNoMemoryOfTheGpuAfterTheStart) {
  RunRanks(2, [](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice(Rough(100'000, rank.rank()));
    const auto nccl = rank.Connect();
    Rank::Set("FAKE_MEMORY", "1");
    auto* data = static_cast<float*>(memory.data());
    Rank::Must(RunToEnd(*nccl, Sum(OperationKind::kAllReduce, data, 100'000, data, 100'000)));
  });
}

TEST(NcclTree, IsNcclsOwnAdditionWhereThatIsAskedFor) {
  RunRanks(4, [](Rank& rank) {
    Rank::Set("FAKE_SUMS", "ring");
    Options options = rank.MakeOptions();
    options.algorithm = core::Reduce::kNccl;
    options.slice_sum = nullptr;
    const auto nccl = rank.ConnectWith(options);
    EXPECT_NE(SumsBy(rank, *nccl, 10'000, 10'000), TreeOfAll(10'000, 4));
  });
}

void ExpectRefusal(Rank& rank, const Options& options, ErrorKind kind, const std::string& words) {
  const auto made = ConnectNccl(options, rank.rendezvous(), In(seconds(60)));
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, kind) << made.error().message;
  EXPECT_THAT(made.error().message, HasSubstr(words));
}

TEST(NcclTree, OnAGpuThatItsKernelDoesNotServeIsRefusedWithTheWayOut) {
  RunRanks(2, [](Rank& rank) {
    if (rank.rank() == 0) Rank::Set("FAKE_CAPABILITY", "75");
    ExpectRefusal(rank, rank.MakeOptions(), ErrorKind::kNotFound, "(reduce: Nccl)");
  });
}

TEST(NcclTree, OfAnImageThatDoesNotLoadIsRefusedOnAllRanks) {
  RunRanks(2, [](Rank& rank) {
    if (rank.rank() == 1) Rank::Set("FAKE_IMAGE", "209");
    ExpectRefusal(rank, rank.MakeOptions(), ErrorKind::kNotFound,
                  "rank 1: the driver loads no kernels");
  });
}

TEST(NcclTree, IsTheOnlyOneOfGloosOrdersOnNccl) {
  RunRanks(1, [](Rank& rank) {
    Options options = rank.MakeOptions();
    options.algorithm = core::Reduce::kRing;
    ExpectRefusal(rank, options, ErrorKind::kNotFound, "write reduce: Tree or Nccl");
    options.backend = Backend::kAuto;
    const auto made = Connect(options);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ((*made)->memory(), Memory::kHost);
  });
}

TEST(NcclTree, NcclsOwnAdditionWantsNccl) {
  Options options = TestOptions(2);
  options.algorithm = core::Reduce::kNccl;
  const auto made = Connect(options);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(made.error().message, HasSubstr("needs backend: Nccl"));
}

}  // namespace
}  // namespace lockstep::collectives::nccl_tree_test
