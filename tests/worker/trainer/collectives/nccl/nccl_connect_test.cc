// The whole way: Connect() with NCCL, its issuing thread, recorder and watchdog, on the fakes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/group/cuda_bench.h"

namespace lockstep::collectives {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Options OptionsOf(const Rank& rank, uint16_t port, Backend backend) {
  Options options = rank.MakeOptions();
  options.master_address = "127.0.0.1";
  options.master_port = port;
  options.identity = "job/1";
  options.backend = backend;
  return options;
}

std::unique_ptr<Communicator> Made(const Options& options) {
  Result<std::unique_ptr<Communicator>> made = Connect(options);
  if (!made.ok()) Rank::Must(made.error());
  return std::move(*made);
}

class NcclConnectWorlds : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Of, NcclConnectWorlds, ::testing::Values(1, 2, 4));

TEST_P(NcclConnectWorlds, ManyBucketsUnderWayAtOnceComeOutRight) {
  const uint16_t port = FreePort();
  RunRanks(GetParam(), [port](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice(std::vector<float>(10'000, 1));
    const auto all = Made(OptionsOf(rank, port, Backend::kNccl));
    EXPECT_EQ(all->memory(), Memory::kDevice);
    // More than may be in flight.
    std::vector<Work> buckets;
    for (size_t i = 0; i < 100; ++i) {
      float* bucket = static_cast<float*>(memory.data()) + i * 100;
      buckets.push_back(
          all->AllReduceAsync({bucket, 100, DataType::kFloat32}, Reduction::kSum, "bucket"));
    }
    for (Work& bucket : buckets) Rank::Must(bucket.Wait());
    Rank::Must(all->Barrier("end"));
    EXPECT_THAT(rank.ToHost<float>(memory), Each(static_cast<float>(rank.world())));
    Rank::Must(all->Finish());
  });
}

TEST_P(NcclConnectWorlds, TheBenchFindsNoWrongValue) {
  const uint16_t port = FreePort();
  RunRanks(GetParam(), [port](Rank& rank) {
    Result<std::unique_ptr<BenchMemory>> memory = MakeDeviceMemory(rank.rank());
    ASSERT_TRUE(memory.ok()) << memory.error().message;
    const auto all = Made(OptionsOf(rank, port, Backend::kNccl));
    const Result<BenchReport> report = BenchAllReduce(*all, {.begin = 8,
                                                             .end = 4096,
                                                             .factor = 8,
                                                             .warmup = 1,
                                                             .iterations = 2,
                                                             .memory = memory->get()});
    ASSERT_TRUE(report.ok()) << report.error().message;
    EXPECT_TRUE(report->passed);
    EXPECT_THAT(report->backend, StartsWith("NCCL"));
    Rank::Must(all->Finish());
  });
}

TEST(NcclConnect, TheBenchSaysWhyThereIsNoMemory) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_MEMORY", "65536");
    Result<std::unique_ptr<BenchMemory>> memory = MakeDeviceMemory(0);
    ASSERT_TRUE(memory.ok()) << memory.error().message;
    const auto all = Made(OptionsOf(rank, 0, Backend::kNccl));
    const Result<BenchReport> report =
        BenchAllReduce(*all, {.begin = 8, .end = 1 << 20, .memory = memory->get()});
    ASSERT_FALSE(report.ok());
    EXPECT_THAT(report.error().message, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
    EXPECT_THAT(report.error().message, HasSubstr("1048576 bytes; end at a smaller size"));
  });
}

TEST(NcclConnect, AutoTakesNcclWhereItIs) {
  const uint16_t port = FreePort();
  RunRanks(2, [port](Rank& rank) {
    const auto all = Made(OptionsOf(rank, port, Backend::kAuto));
    EXPECT_EQ(all->memory(), Memory::kDevice);
    Rank::Must(all->Finish());
  });
}

TEST(NcclConnect, AutoTakesGlooOnAllRanksWhereOneHasNoGpu) {
  const uint16_t port = FreePort();
  RunRanks(2, [port](Rank& rank) {
    if (rank.rank() == 1) Rank::Set("FAKE_GPUS", "0");
    const auto all = Made(OptionsOf(rank, port, Backend::kAuto));
    EXPECT_EQ(all->memory(), Memory::kHost);
    Rank::Must(all->Barrier("gloo"));
    Rank::Must(all->Finish());
  });
}

TEST(NcclConnect, AutoTakesGlooOnAllRanksWhereOneHasAnOldDriver) {
  const uint16_t port = FreePort();
  RunRanks(3, [port](Rank& rank) {
    Rank::Set("FAKE_NCCL_CUDA", "13000");
    if (rank.rank() == 1) Rank::Set("FAKE_DRIVER", "12040");
    const auto all = Made(OptionsOf(rank, port, Backend::kAuto));
    EXPECT_EQ(all->memory(), Memory::kHost);
    EXPECT_THAT(all->Describe(), HasSubstr("rank 1: the NVIDIA driver serves CUDA 12.4"));
    Rank::Must(all->Barrier("gloo"));
    Rank::Must(all->Finish());
  });
}

TEST(NcclConnect, WhatOneRankLacksBesideNcclIsAReasonOnAllRanks) {
  for (const Backend backend : {Backend::kAuto, Backend::kNccl}) {
    const uint16_t port = FreePort();
    RunRanks(3, [port, backend](Rank& rank) {
      Options options = OptionsOf(rank, port, backend);
      if (rank.rank() == 1) options.without_gpu = Error::NotFound("no products");
      Result<std::unique_ptr<Communicator>> made = Connect(options);
      ASSERT_EQ(made.ok(), backend == Backend::kAuto);
      if (!made.ok()) {
        EXPECT_EQ(made.error().kind, ErrorKind::kNotFound);
        EXPECT_EQ(made.error().message, "rank 1: no products");
        return;
      }
      EXPECT_EQ((*made)->memory(), Memory::kHost);
      EXPECT_THAT((*made)->Describe(), HasSubstr("not NCCL: rank 1: no products"));
      Rank::Must((*made)->Finish());
    });
  }
}

TEST(NcclConnect, AKilledPeerEndsAWaitWithKUnavailable) {
  const uint16_t port = FreePort();
  const std::vector<int> codes = ExitCodes(2, [port](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto all = Made(OptionsOf(rank, port, Backend::kNccl));
    Status done = all->Barrier("both are here");
    if (rank.rank() == 1) kill(getpid(), SIGKILL);
    // Rank 0 may still be in the barrier that rank 1 has left, and hears of the loss there.
    if (done.ok()) {
      done = all->AllReduce({memory.data(), 1, DataType::kFloat32}, Reduction::kSum, "");
    }
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::kUnavailable);
    EXPECT_THAT(done.error().message, HasSubstr("rank 1"));
  });
  EXPECT_THAT(codes, ElementsAre(0, 128 + SIGKILL));
}

TEST(NcclConnect, ALostGpuIsItsOwnRanksTroubleAlone) {
  const uint16_t port = FreePort();
  RunRanks(3, [port](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto all = Made(OptionsOf(rank, port, Backend::kNccl));
    Status done = all->Barrier("all are here");
    // A peer may still be in the barrier that rank 1 has left, and hears of the loss there.
    if (rank.rank() == 1) {
      Rank::Must(done);
      // Warm-up, barrier: two events each.
      Rank::Set("FAKE_LOST_AT", "5");
    }
    if (done.ok()) {
      done = all->AllReduce({memory.data(), 1, DataType::kFloat32}, Reduction::kSum, "");
    }
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, rank.rank() == 1 ? ErrorKind::kBroken : ErrorKind::kUnavailable);
    EXPECT_THAT(done.error().message, StartsWith("rank 1: cu"));
    EXPECT_THAT(done.error().message, HasSubstr("a GPU of this machine is lost"));
  });
}

TEST(NcclConnect, AGpuThatIsLostAtTheStartIsItsOwnRanksTroubleAlone) {
  const uint16_t port = FreePort();
  RunRanks(2, [port](Rank& rank) {
    if (rank.rank() == 1) Rank::Set("FAKE_LOST_AT", "1");
    const Result<std::unique_ptr<Communicator>> made =
        Connect(OptionsOf(rank, port, Backend::kNccl));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, rank.rank() == 1 ? ErrorKind::kBroken : ErrorKind::kUnavailable);
    EXPECT_THAT(made.error().message, HasSubstr("rank 1: "));
  });
}

TEST(NcclConnect, APeerThatDiesWhileNcclStartsEndsConnect) {
  const uint16_t port = FreePort();
  const std::vector<int> codes = ExitCodes(3, [port](Rank& rank) {
    if (rank.rank() == 1) Rank::Set("FAKE_INIT", "die");
    Options options = OptionsOf(rank, port, Backend::kNccl);
    // Longer than the test may take.
    options.connect_timeout = seconds(600);
    const Result<std::unique_ptr<Communicator>> made = Connect(options);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::kUnavailable) << made.error().message;
  });
  EXPECT_THAT(codes, ElementsAre(0, 9, 0));
}

TEST(NcclConnect, AQueueBehindSlowOperationsIsNotLate) {
  const uint16_t port = FreePort();
  RunRanks(2, [port](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice(std::vector<float>(8, 1));
    Options options = OptionsOf(rank, port, Backend::kNccl);
    Rank::Set("FAKE_SLOW_MS", "700");
    // For one of them; all together take longer.
    options.operation_timeout = seconds(4);
    const auto all = Made(options);
    std::vector<Work> buckets;
    for (size_t i = 0; i < 8; ++i) {
      float* bucket = static_cast<float*>(memory.data()) + i;
      buckets.push_back(
          all->AllReduceAsync({bucket, 1, DataType::kFloat32}, Reduction::kSum, "bucket"));
    }
    for (Work& bucket : buckets) Rank::Must(bucket.Wait());
    EXPECT_THAT(rank.ToHost<float>(memory), Each(2));
    Rank::Must(all->Finish());
  });
}

// Floats on the GPU, and a stream of the program's own that sets them.
struct SlowFloats {
  SlowFloats(Rank& rank, size_t count)
      : device(rank.device()),
        memory(rank.ToDevice(std::vector<float>(count, 1))),
        stream(std::move(*CudaStream::Create(device))),
        event(std::move(*CudaEvent::Create(device))) {}

  Span span() const { return {memory.data(), memory.size() / sizeof(float), DataType::kFloat32}; }
  // To kSet, after `time`; the host does not wait.
  void Set(milliseconds time) const {
    Rank::Set("FAKE_SLOW_SET_MS", std::to_string(time.count()));
    Rank::Must(device->Enter());
    EXPECT_EQ(device->api().memory_set(reinterpret_cast<cuda::Address>(memory.data()), 0x40,
                                       memory.size(), stream.get()),
              cuda::kSuccess);
    Rank::Must(event.Record(stream));
  }
  static constexpr float kSet = std::bit_cast<float>(0x40404040U);

  std::shared_ptr<const CudaDevice> device;
  DeviceMemory memory;
  CudaStream stream;
  CudaEvent event;
};

TEST_P(NcclConnectWorlds, AnOperationBeginsAfterItsEvent) {
  const uint16_t port = FreePort();
  RunRanks(GetParam(), [port](Rank& rank) {
    const SlowFloats floats(rank, 100);
    const auto all = Made(OptionsOf(rank, port, Backend::kNccl));
    floats.Set(milliseconds(1500));
    Work work = all->AllReduceAsync(floats.span(), Reduction::kMax, "bucket", &floats.event);
    EXPECT_FALSE(work.done());
    Rank::Must(work.Wait());
    EXPECT_THAT(rank.ToHost<float>(floats.memory), Each(SlowFloats::kSet));
    Rank::Must(all->Finish());
  });
}

TEST(NcclConnect, ARanksOwnLateWorkIsNobodysLateness) {
  const uint16_t port = FreePort();
  RunRanks(2, [port](Rank& rank) {
    const SlowFloats floats(rank, 100);
    Options options = OptionsOf(rank, port, Backend::kNccl);
    options.operation_timeout = seconds(3);
    const auto all = Made(options);
    floats.Set(milliseconds(4500));
    Rank::Must(all->AllReduceAsync(floats.span(), Reduction::kMax, "bucket", &floats.event).Wait());
    EXPECT_THAT(rank.ToHost<float>(floats.memory), Each(SlowFloats::kSet));
    Rank::Must(all->Finish());
  });
}

TEST(NcclConnect, AStreamWaitsForTheEndOfAnOperation) {
  const uint16_t port = FreePort();
  RunRanks(2, [port](Rank& rank) {
    const SlowFloats floats(rank, 1);
    Rank::Set("FAKE_SLOW_MS", "1500");
    const auto all = Made(OptionsOf(rank, port, Backend::kNccl));
    Work work = all->AllReduceAsync(floats.span(), Reduction::kSum, "bucket");
    Rank::Must(work.MakeWait(floats.stream));
    EXPECT_FALSE(work.done());
    float sum = 0;
    Rank::Must(floats.device->Enter());
    EXPECT_EQ(floats.device->api().copy_to_host(
                  &sum, reinterpret_cast<cuda::Address>(floats.memory.data()), sizeof(sum),
                  floats.stream.get()),
              cuda::kSuccess);
    Rank::Must(floats.stream.Synchronize());
    EXPECT_EQ(sum, 2);
    Rank::Must(work.Wait());
    // Of what is done, nothing is left to wait for.
    Rank::Must(work.MakeWait(floats.stream));
    Rank::Must(all->Finish());
  });
}

TEST(NcclConnect, StreamsAndEventsBelongToDeviceMemory) {
  RunRanks(1, [](Rank& rank) {
    const SlowFloats floats(rank, 1);
    const auto all = Made(OptionsOf(rank, 0, Backend::kGloo));
    float value = 1;
    const Status done = all->AllReduceAsync({&value, 1, DataType::kFloat32}, Reduction::kSum,
                                            "bucket", &floats.event)
                            .Wait();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().kind, ErrorKind::kInvalid);
  });
}

TEST(NcclConnect, ARankThatHangsFailsAllAtTheDeadline) {
  const uint16_t port = FreePort();
  RunRanks(2, [port](Rank& rank) {
    // The warm-up's three, the barrier, then this.
    if (rank.rank() == 1) Rank::Set("FAKE_HANG_AT", "5");
    const DeviceMemory memory = rank.ToDevice<float>({1});
    Options options = OptionsOf(rank, port, Backend::kNccl);
    // Enough for the barrier on a busy machine.
    options.operation_timeout = seconds(3);
    const auto all = Made(options);
    Rank::Must(all->Barrier("both are here"));
    const Status done = all->AllReduce({memory.data(), 1, DataType::kFloat32}, Reduction::kSum, "");
    ASSERT_FALSE(done.ok());
    EXPECT_THAT(done.error().kind, AnyOf(ErrorKind::kTimeout, ErrorKind::kUnavailable));
  });
}

}  // namespace
}  // namespace lockstep::collectives
