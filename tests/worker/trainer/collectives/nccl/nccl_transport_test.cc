#include "worker/trainer/collectives/nccl/nccl_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"

namespace lockstep::collectives {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

Operation Make(OperationKind kind) {
  Operation operation;
  operation.kind = kind;
  operation.deadline = In(seconds(60));
  return operation;
}

Operation AllReduce(const DeviceMemory& memory, DataType type = DataType::kFloat32,
                    Reduction reduction = Reduction::kSum) {
  Operation operation = Make(OperationKind::kAllReduce);
  operation.out = {memory.data(), memory.size() / SizeOf(type), type};
  operation.in = operation.out;
  operation.reduction = reduction;
  return operation;
}

class NcclTransportWorlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, NcclTransportWorlds, ::testing::Values(1, 2, 4));

TEST_P(NcclTransportWorlds, AllReduceAddsFloats) {
  RunRanks(GetParam(), [](Rank& rank) {
    const auto nccl = rank.Connect();
    // More than one of the fake's chunks.
    std::vector<float> values(200'003);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i % 1000) + static_cast<float>(rank.rank());
    const DeviceMemory memory = rank.ToDevice(values);
    Rank::Must(RunToEnd(*nccl, AllReduce(memory)));
    const auto world = static_cast<float>(rank.world());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = world * static_cast<float>(i % 1000) + world * (world - 1) / 2;
    EXPECT_EQ(rank.ToHost<float>(memory), values);
  });
}

TEST_P(NcclTransportWorlds, AllReduceTakesMinimaAndMaximaOfIntegers) {
  RunRanks(GetParam(), [](Rank& rank) {
    const auto nccl = rank.Connect();
    const DeviceMemory least = rank.ToDevice<int64_t>({rank.rank() + (int64_t{1} << 40), -5});
    const DeviceMemory most = rank.ToDevice<int64_t>({rank.rank() + (int64_t{1} << 40), -5});
    Rank::Must(RunToEnd(*nccl, AllReduce(least, DataType::kInt64, Reduction::kMin)));
    Rank::Must(RunToEnd(*nccl, AllReduce(most, DataType::kInt64, Reduction::kMax)));
    EXPECT_THAT(rank.ToHost<int64_t>(least), ElementsAre(int64_t{1} << 40, -5));
    EXPECT_THAT(rank.ToHost<int64_t>(most), ElementsAre((int64_t{1} << 40) + rank.world() - 1, -5));
  });
}

TEST_P(NcclTransportWorlds, BroadcastGivesAllTheRootsBytes) {
  RunRanks(GetParam(), [](Rank& rank) {
    const auto nccl = rank.Connect();
    const int root = rank.world() - 1;
    const auto fill = static_cast<uint8_t>(rank.rank() == root ? 7 : 0);
    const DeviceMemory memory = rank.ToDevice(std::vector<uint8_t>(1'000'001, fill));
    Operation broadcast = Make(OperationKind::kBroadcast);
    broadcast.out = {memory.data(), memory.size(), DataType::kByte};
    broadcast.in = broadcast.out;
    broadcast.peer = root;
    Rank::Must(RunToEnd(*nccl, broadcast));
    EXPECT_THAT(rank.ToHost<uint8_t>(memory), Each(7));
  });
}

TEST_P(NcclTransportWorlds, ReduceScatterThenAllGatherIsAnAllReduce) {
  RunRanks(GetParam(), [](Rank& rank) {
    const auto nccl = rank.Connect();
    const auto world = static_cast<size_t>(rank.world());
    const auto self = static_cast<size_t>(rank.rank());
    const size_t part = 70'001;
    const size_t ranks = world * (world + 1) / 2;  // 1 + 2 + ...
    std::vector<float> values(part * world);
    std::vector<float> sums(part * world);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i % 512) * static_cast<float>(self + 1);
      sums[i] = static_cast<float>(i % 512 * ranks);
    }
    const DeviceMemory in = rank.ToDevice(values);
    const DeviceMemory all = rank.Allocate(values.size() * sizeof(float));
    float* own = static_cast<float*>(all.data()) + self * part;

    Operation scatter = Make(OperationKind::kReduceScatter);
    scatter.in = {in.data(), values.size(), DataType::kFloat32};
    scatter.out = {own, part, DataType::kFloat32};
    Rank::Must(RunToEnd(*nccl, scatter));
    Operation gather = Make(OperationKind::kAllGather);
    gather.in = scatter.out;
    gather.out = {all.data(), values.size(), DataType::kFloat32};
    Rank::Must(RunToEnd(*nccl, gather));
    EXPECT_EQ(rank.ToHost<float>(all), sums);
  });
}

TEST_P(NcclTransportWorlds, SendAndReceiveMoveBytesAroundTheRing) {
  RunRanks(GetParam(), [](Rank& rank) {
    if (rank.world() == 1) return;
    const auto nccl = rank.Connect();
    const DeviceMemory out = rank.ToDevice(std::vector<int64_t>(10'000, rank.rank()));
    const DeviceMemory in = rank.Allocate(out.size());
    Operation send = Make(OperationKind::kSend);
    send.in = {out.data(), 10'000, DataType::kInt64};
    send.peer = (rank.rank() + 1) % rank.world();
    Operation receive = Make(OperationKind::kReceive);
    receive.out = {in.data(), 10'000, DataType::kInt64};
    receive.peer = (rank.rank() + rank.world() - 1) % rank.world();
    // Each waits for its peer: one rank begins by receiving.
    Rank::Must(RunToEnd(*nccl, rank.rank() == 0 ? receive : send));
    Rank::Must(RunToEnd(*nccl, rank.rank() == 0 ? send : receive));
    EXPECT_THAT(rank.ToHost<int64_t>(in), Each(receive.peer));
  });
}

// Neighbours that both send first: NcclGroup's test shows them waiting for each other otherwise.
TEST_P(NcclTransportWorlds, AnExchangeSendsAndReceivesAtTheSameTime) {
  RunRanks(GetParam(), [](Rank& rank) {
    if (rank.world() == 1) return;
    const auto nccl = rank.Connect();
    // What goes the two ways may differ in size.
    const auto count_of = [](int from) { return from % 2 == 0 ? size_t{10'000} : size_t{5'000}; };
    Operation exchange = Make(OperationKind::kExchange);
    exchange.peer = rank.rank() % 2 == 0 ? rank.rank() + 1 : rank.rank() - 1;
    const DeviceMemory out =
        rank.ToDevice(std::vector<int64_t>(count_of(rank.rank()), rank.rank()));
    const DeviceMemory in = rank.Allocate(count_of(exchange.peer) * sizeof(int64_t));
    exchange.in = {out.data(), count_of(rank.rank()), DataType::kInt64};
    exchange.out = {in.data(), count_of(exchange.peer), DataType::kInt64};
    Rank::Must(RunToEnd(*nccl, exchange));
    EXPECT_THAT(rank.ToHost<int64_t>(in), Each(exchange.peer));
  });
}

TEST_P(NcclTransportWorlds, OperationsThatWereAllBegunFinishInOrder) {
  RunRanks(GetParam(), [](Rank& rank) {
    if (rank.rank() == 0) Rank::Set("FAKE_SLOW_MS", "2");
    // Fewer events than operations: Start waits for the oldest, and Finish still counts each.
    const auto nccl = rank.Connect({.in_flight = 3});
    const DeviceMemory memory = rank.ToDevice<float>({1});
    for (int i = 0; i < 10; ++i) Rank::Must(nccl->Start(AllReduce(memory)));
    for (int i = 0; i < 10; ++i) Rank::Must(FinishOne(*nccl));
    float expected = 1;
    for (int i = 0; i < 10; ++i) expected *= static_cast<float>(rank.world());
    EXPECT_THAT(rank.ToHost<float>(memory), ElementsAre(expected));
  });
}

TEST_P(NcclTransportWorlds, CallsThatAreInProgressArePolledToTheirEnd) {
  RunRanks(GetParam(), [](Rank& rank) {
    Rank::Set("FAKE_IN_PROGRESS", "3");
    const auto nccl = rank.Connect();
    const DeviceMemory memory = rank.ToDevice<float>({2});
    Rank::Must(RunToEnd(*nccl, AllReduce(memory)));
    Rank::Must(RunToEnd(*nccl, Make(OperationKind::kBarrier)));
    EXPECT_THAT(rank.ToHost<float>(memory), ElementsAre(2 * static_cast<float>(rank.world())));
  });
}

TEST(NcclTransport, StartDoesNotWaitForAPeer) {
  RunRanks(2, [](Rank& rank) {
    const auto nccl = rank.Connect();
    const DeviceMemory memory = rank.ToDevice<float>({1});
    if (rank.rank() == 0) {
      Rank::Must(nccl->Start(AllReduce(memory)));
      Result<bool> done = nccl->Finish(milliseconds(1));
      EXPECT_TRUE(done.ok() && !*done);
      Rank::Must(rank.rendezvous().Set("rank 0 has begun", ""));
      Rank::Must(FinishOne(*nccl));
    } else {
      EXPECT_TRUE(rank.rendezvous().Get("rank 0 has begun", In(seconds(60))).ok());
      Rank::Must(RunToEnd(*nccl, AllReduce(memory)));
    }
    EXPECT_THAT(rank.ToHost<float>(memory), ElementsAre(2));
  });
}

TEST(NcclTransport, NothingBegunIsFinished) {
  RunRanks(1, [](Rank& rank) {
    const auto nccl = rank.Connect();
    Result<bool> done = nccl->Finish(seconds(60));
    EXPECT_TRUE(done.ok() && *done);
    EXPECT_EQ(nccl->memory(), Memory::kDevice);
    EXPECT_EQ(nccl->Describe(), "NCCL 2.28.9 on GPU 0 (Stand-in GPU)");
  });
}

TEST(NcclTransport, RefusesToReduceBytesAndBFloat16) {
  for (const DataType type : {DataType::kByte, DataType::kBFloat16}) {
    RunRanks(1, [type](Rank& rank) {
      const auto nccl = rank.Connect();
      const DeviceMemory memory = rank.ToDevice<uint16_t>({1});
      const Status done = RunToEnd(*nccl, AllReduce(memory, type));
      ASSERT_FALSE(done.ok());
      EXPECT_EQ(done.error().kind, ErrorKind::kInvalid);
    });
  }
}

TEST_P(NcclTransportWorlds, BFloat16IsGathered) {
  RunRanks(GetParam(), [](Rank& rank) {
    const auto nccl = rank.Connect();
    const auto world = static_cast<size_t>(rank.world());
    const size_t part = 1001;
    const DeviceMemory own =
        rank.ToDevice(std::vector<uint16_t>(part, static_cast<uint16_t>(0x3f80 + rank.rank())));
    const DeviceMemory all = rank.Allocate(part * world * sizeof(uint16_t));
    Operation gather = Make(OperationKind::kAllGather);
    gather.in = {own.data(), part, DataType::kBFloat16};
    gather.out = {all.data(), part * world, DataType::kBFloat16};
    Rank::Must(RunToEnd(*nccl, gather));
    const auto values = rank.ToHost<uint16_t>(all);
    for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 0x3f80 + i / part);
  });
}

TEST(NcclTransport, RefusesPartsThatDoNotFitTheWhole) {
  RunRanks(1, [](Rank& rank) {
    const auto nccl = rank.Connect();
    const DeviceMemory memory = rank.ToDevice<float>({1, 2});
    Operation gather = Make(OperationKind::kAllGather);
    gather.in = {memory.data(), 1, DataType::kFloat32};
    gather.out = {memory.data(), 2, DataType::kFloat32};
    const Status done = RunToEnd(*nccl, gather);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::kInvalid);
  });
}

}  // namespace
}  // namespace lockstep::collectives
