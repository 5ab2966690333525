#include "worker/trainer/collectives/cuda/cuda.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"

namespace lockstep::collectives {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Cuda, DeviceMemoryGivesBackWhatWasCopiedIntoIt) {
  RunRanks(1, [](Rank& rank) {
    DeviceMemory memory = rank.ToDevice<int64_t>({1, 2, 3});
    const int64_t five = 5;
    Rank::Must(memory.CopyFrom(&five, sizeof(five), sizeof(five)));
    EXPECT_THAT(rank.ToHost<int64_t>(memory), ElementsAre(1, 5, 3));
    int64_t last = 0;
    Rank::Must(memory.CopyTo(&last, sizeof(last), 2 * sizeof(last)));
    EXPECT_EQ(last, 3);
    Rank::Must(memory.Clear());
    EXPECT_THAT(rank.ToHost<int64_t>(memory), ElementsAre(0, 0, 0));
  });
}

TEST(Cuda, CopiesBeyondTheEndAreRefused) {
  RunRanks(1, [](Rank& rank) {
    DeviceMemory memory = rank.Allocate(8);
    std::vector<char> host(9);
    for (const Status& copied : {memory.CopyFrom(host.data(), 9), memory.CopyTo(host.data(), 1, 8),
                                 memory.CopyTo(host.data(), 1, SIZE_MAX)}) {
      ASSERT_FALSE(copied.ok());
      EXPECT_EQ(copied.error().kind, ErrorKind::kInvalid);
    }
    Rank::Must(memory.CopyTo(host.data(), 0, 8));
  });
}

TEST(Cuda, MemoryOfNoBytesIsMemoryToo) {
  RunRanks(1, [](Rank& rank) {
    const DeviceMemory memory = rank.Allocate(0);
    EXPECT_NE(memory.data(), nullptr);
    EXPECT_EQ(memory.size(), 0);
  });
}

TEST(Cuda, AnEventIsDoneWhenAllBeforeItIs) {
  RunRanks(1, [](Rank& rank) {
    Result<CudaStream> stream = CudaStream::Create(rank.device());
    Result<CudaEvent> event = CudaEvent::Create(rank.device());
    ASSERT_TRUE(stream.ok() && event.ok());
    Rank::Must(event->Record(*stream));
    Rank::Must(stream->Synchronize());
    Result<bool> done = event->Done();
    EXPECT_TRUE(done.ok() && *done);
  });
}

TEST(Cuda, AStreamThatWaitsForAnEventWaitsForTheWorkBeforeIt) {
  RunRanks(1, [](Rank& rank) {
    Result<CudaStream> first = CudaStream::Create(rank.device());
    Result<CudaStream> second = CudaStream::Create(rank.device());
    Result<CudaEvent> middle = CudaEvent::Create(rank.device());
    ASSERT_TRUE(first.ok() && second.ok() && middle.ok());
    // Never recorded: done.
    Rank::Must(second->WaitFor(*middle));
    Rank::Must(second->Synchronize());
    const DeviceMemory memory = rank.Allocate(1);
    const auto address = reinterpret_cast<cuda::Address>(memory.data());
    const cuda::Api& api = rank.device()->api();
    Rank::Must(rank.device()->Enter());
    Rank::Set("FAKE_SLOW_SET_MS", "100");
    EXPECT_EQ(api.memory_set(address, 7, 1, first->get()), cuda::kSuccess);
    Rank::Must(middle->Record(*first));
    Rank::Must(second->WaitFor(*middle));
    char byte = 0;
    EXPECT_EQ(api.copy_to_host(&byte, address, 1, second->get()), cuda::kSuccess);
    Rank::Must(second->Synchronize());
    EXPECT_EQ(byte, 7);
  });
}

Error StartFailure(const char* code) {
  Rank::Set("FAKE_START", code);
  const auto driver = CudaDriver::Load();
  return driver.ok() ? Error{ErrorKind::kInternal, "it has started"} : driver.error();
}

TEST(Cuda, ADriverThatDoesNotStartIsTheMachinesFault) {
  RunRanks(1, [](Rank&) {
    for (const char* code : {"802", "803", "226", "719", "304", "999"}) {
      const Error failure = StartFailure(code);
      EXPECT_EQ(failure.kind, ErrorKind::kBroken) << failure.message;
      EXPECT_THAT(failure.message, HasSubstr("the machine must be replaced"));
    }
    EXPECT_THAT(StartFailure("802").message, HasSubstr("nvidia-fabricmanager must run"));
    EXPECT_THAT(StartFailure("803").message, HasSubstr("have different versions"));
  });
}

TEST(Cuda, ADriverThatTheImageBringsIsNoFaultOfTheMachine) {
  RunRanks(1, [](Rank&) {
    for (const char* code : {"34", "36", "101", "804"}) {
      const Error failure = StartFailure(code);
      EXPECT_EQ(failure.kind, ErrorKind::kNotFound) << failure.message;
      EXPECT_THAT(failure.message, HasSubstr("check the libcuda.so.1 of this image"));
    }
  });
}

TEST(Cuda, WaitsForTheMemoryOfAProcessThatHasJustEnded) {
  for (const char* call : {"context:2", "memory:2"}) {
    RunRanks(1, [call](Rank&) {
      Rank::Set("FAKE_FULL", call);
      const auto device = CudaDevice::Open(0);
      ASSERT_TRUE(device.ok()) << device.error().message;
      const Result<DeviceMemory> memory = DeviceMemory::Allocate(*device, 8);
      EXPECT_TRUE(memory.ok()) << memory.error().message;
    });
  }
}

TEST(Cuda, MemoryThatAnotherProcessKeepsMayBeTriedAgain) {
  RunRanks(1, [](Rank& rank) {
    const Status taken = rank.device()->driver().AwaitMemory(
        "cuMemAlloc", [] { return cuda::kOutOfMemory; }, Duration::zero());
    ASSERT_FALSE(taken.ok());
    EXPECT_EQ(taken.error().kind, ErrorKind::kUnavailable);
    EXPECT_THAT(taken.error().message, HasSubstr("another process uses it"));
  });
}

TEST(Cuda, MoreMemoryThanTheGpuHasIsAnErrorAtOnce) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_MEMORY", "1000");
    const Result<DeviceMemory> memory = DeviceMemory::Allocate(rank.device(), 1001);
    ASSERT_FALSE(memory.ok());
    EXPECT_EQ(memory.error().kind, ErrorKind::kTooLarge);
  });
}

TEST(Cuda, VersionsReadAsPeopleWriteThem) {
  EXPECT_EQ(CudaVersionText(13000), "13.0");
  EXPECT_EQ(CudaVersionText(12040), "12.4");
  EXPECT_EQ(NcclVersionText(22809), "2.28.9");
  EXPECT_EQ(NcclVersionText(21805), "2.18.5");
}

}  // namespace
}  // namespace lockstep::collectives
