// What goes wrong between ranks that are all there: each ends by a deadline or an error that names
// it, and the end of the communicator is bounded. Buffers of operations that never finish are freed
// after the transport: until it is gone, NCCL may still use them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/worker/trainer/collectives/nccl/rank_processes.h"
#include "worker/trainer/collectives/group/connect.h"
#include "worker/trainer/collectives/nccl/nccl_transport.h"

namespace lockstep::collectives {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Operation AllReduce(const DeviceMemory& memory, size_t count, Duration patience) {
  Operation operation;
  operation.kind = OperationKind::kAllReduce;
  operation.number = 7;
  operation.out = {memory.data(), count, DataType::kFloat32};
  operation.in = operation.out;
  operation.deadline = In(patience);
  return operation;
}

void ExpectFailure(const Status& status, ErrorKind kind, const std::string& words) {
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, kind) << status.error().message;
  EXPECT_THAT(status.error().message, HasSubstr(words));
}

TEST(NcclFailure, InitialisationThatNeverCompletesEndsAtTheDeadline) {
  RunRanks(2, [](Rank& rank) {
    Rank::Set("FAKE_INIT", "hang");
    // Enough for the handshake on a busy machine.
    const auto made = rank.TryConnect(seconds(2));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::kTimeout);
    EXPECT_THAT(made.error().message, HasSubstr("ncclCommInitRankConfig"));
  });
}

TEST(NcclFailure, ARankThatDoesNotComeToTheHandshakeIsNamed) {
  RunRanks(2, [](Rank& rank) {
    if (rank.rank() == 1) return;
    const auto made = rank.TryConnect(milliseconds(300));
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().kind, ErrorKind::kTimeout);
    EXPECT_THAT(made.error().message, HasSubstr("rank 1 did not start NCCL in time"));
  });
}

TEST(NcclFailure, ACountThatDiffersHangsUntilTheDeadline) {
  RunRanks(2, [](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<float>({1, 2, 3});
    const auto nccl = rank.Connect();
    const size_t count = rank.rank() == 0 ? 3 : 2;
    const Status done = RunToEnd(*nccl, AllReduce(memory, count, milliseconds(300)));
    ExpectFailure(done, ErrorKind::kTimeout, "ncclAllReduce (operation 7)");
  });
}

TEST(NcclFailure, AnotherOrderHangsUntilTheDeadline) {
  RunRanks(2, [](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<float>({1, 2, 3});
    const auto nccl = rank.Connect();
    Operation barrier;
    barrier.deadline = In(milliseconds(300));
    const Operation reduce = AllReduce(memory, 3, milliseconds(300));
    Rank::Must(nccl->Start(rank.rank() == 0 ? barrier : reduce));
    Rank::Must(nccl->Start(rank.rank() == 0 ? reduce : barrier));
    ExpectFailure(FinishOne(*nccl), ErrorKind::kTimeout, "another operation");
  });
}

TEST(NcclFailure, AnOperationThatHangsOnOneRankEndsAtItsDeadlineOnAll) {
  RunRanks(2, [](Rank& rank) {
    // The first three are the warm-up's: the tree's two and the barrier.
    if (rank.rank() == 1) Rank::Set("FAKE_HANG_AT", "5");
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto nccl = rank.Connect();
    Rank::Must(RunToEnd(*nccl, AllReduce(memory, 1, seconds(60))));
    ExpectFailure(RunToEnd(*nccl, AllReduce(memory, 1, milliseconds(300))), ErrorKind::kTimeout,
                  "ncclAllReduce");
    EXPECT_THAT(rank.ToHost<float>(memory), ElementsAre(2));
  });
}

TEST(NcclFailure, AWarmUpThatHangsEndsAtTheDeadlineOfTheStart) {
  for (const char* operation : {"1", "2", "3"}) {
    RunRanks(2, [operation](Rank& rank) {
      if (rank.rank() == 1) Rank::Set("FAKE_HANG_AT", operation);
      const auto made = rank.TryConnect(seconds(2));
      ASSERT_FALSE(made.ok());
      ExpectFailure(made.error(), ErrorKind::kTimeout, "did not finish by");
      EXPECT_THAT(made.error().message, HasSubstr("deadline: a"));
    });
  }
}

TEST(NcclFailure, AnErrorInTheBackgroundSurfaces) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_ERROR_AT", "2");
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto nccl = rank.Connect();
    ExpectFailure(RunToEnd(*nccl, AllReduce(memory, 1, seconds(60))), ErrorKind::kUnavailable,
                  "remote process exited");
    // Final: nothing works any more.
    ExpectFailure(nccl->Start(AllReduce(memory, 1, seconds(60))), ErrorKind::kUnavailable,
                  "remote process exited");
  });
}

TEST(NcclFailure, WordsFromBeforeTheStartAreNotQuoted) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_OLD_WORDS", "Duplicate GPU detected");
    Rank::Set("FAKE_ERROR_AT", "2");
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto nccl = rank.Connect();
    const Status done = RunToEnd(*nccl, AllReduce(memory, 1, seconds(60)));
    ExpectFailure(done, ErrorKind::kUnavailable, "remote process exited");
    EXPECT_THAT(done.error().message, Not(HasSubstr("Duplicate GPU")));
  });
}

TEST(NcclFailure, AbortFromAnotherThreadEndsAWait) {
  RunRanks(2, [](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto nccl = rank.Connect();
    if (rank.rank() == 1) {
      // A peer that never comes, but is alive until the other is through.
      EXPECT_TRUE(rank.rendezvous().Get("aborted", In(seconds(60))).ok());
      return;
    }
    Rank::Must(nccl->Start(AllReduce(memory, 1, seconds(600))));
    std::thread watchdog([&] { nccl->Abort(); });
    ExpectFailure(FinishOne(*nccl), ErrorKind::kUnavailable, "aborted");
    watchdog.join();
    nccl->Abort();
    ExpectFailure(nccl->Start(AllReduce(memory, 1, seconds(600))), ErrorKind::kUnavailable,
                  "aborted");
    Rank::Must(rank.rendezvous().Set("aborted", ""));
  });
}

TEST(NcclFailure, AnAbortWithNothingUnderWayIsSeenByTheNextOperation) {
  RunRanks(1, [](Rank& rank) {
    const auto nccl = rank.Connect();
    nccl->Abort();
    Operation barrier;
    barrier.deadline = In(seconds(60));
    ExpectFailure(nccl->Start(barrier), ErrorKind::kUnavailable, "aborted");
  });
}

TEST(NcclFailure, AnAbortThatHangsEndsTheProcessWith75) {
  const std::vector<int> codes = ExitCodes(1, [](Rank& rank) {
    Rank::Set("FAKE_ABORT", "hang");
    auto nccl = rank.Connect({.end = milliseconds(200)});
    nccl->Abort();
    nccl.reset();
  });
  EXPECT_THAT(codes, ElementsAre(75));
}

TEST(NcclFailure, AnEndInPeaceThatHangsLeavesItsThreadsBehind) {
  RunRanks(1, [](Rank& rank) {
    Rank::Set("FAKE_DESTROY", "hang");
    const DeviceMemory memory = rank.ToDevice<float>({1});
    EXPECT_FALSE(ThreadsLeftBehind());
    rank.Connect({.end = milliseconds(200)}).reset();
    EXPECT_TRUE(ThreadsLeftBehind());
  });
}

TEST(NcclFailure, MemoryFreedBeforeAnAbortThatHangsEndsTheProcessWith75) {
  const std::vector<int> codes = ExitCodes(2, [](Rank& rank) {
    Rank::Set("FAKE_ABORT", "hang");
    const auto nccl = rank.Connect({.end = milliseconds(200)});
    if (rank.rank() == 1) _exit(9);
    const DeviceMemory memory = rank.ToDevice<float>({1});
    Rank::Must(nccl->Start(AllReduce(memory, 1, seconds(600))));
    nccl->Abort();
  });
  EXPECT_THAT(codes, ElementsAre(75, 9));
}

TEST(NcclFailure, AThreadThatIsStuckWithinNcclEndsTheProcessWith75) {
  const std::vector<int> codes = ExitCodes(1, [](Rank& rank) {
    const std::string sign = testing::TempDir() + "stuck." + std::to_string(getpid());
    Rank::Set("FAKE_STUCK_AT", "2");
    Rank::Set("FAKE_STUCK_FILE", sign);
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto nccl = rank.Connect({.end = milliseconds(200)});
    std::thread watchdog([&] {
      while (unlink(sign.c_str()) != 0) std::this_thread::sleep_for(milliseconds(1));
      nccl->Abort();
    });
    EXPECT_FALSE(RunToEnd(*nccl, AllReduce(memory, 1, seconds(600))).ok());
    watchdog.join();
  });
  EXPECT_THAT(codes, ElementsAre(75));
}

TEST(NcclFailure, ALaunchThatWaitsForAFullQueueEndsInTime) {
  const std::vector<int> codes = ExitCodes(2, [](Rank& rank) {
    const std::string sign = testing::TempDir() + "full." + std::to_string(getpid());
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto nccl = rank.Connect({.end = milliseconds(200)});
    if (rank.rank() == 1) _exit(9);
    Rank::Set("FAKE_QUEUE", "3");
    Rank::Set("FAKE_STUCK_FILE", sign);
    std::thread watchdog([&] {
      while (unlink(sign.c_str()) != 0) std::this_thread::sleep_for(milliseconds(1));
      nccl->Abort();
    });
    Status started;
    while (started.ok()) started = nccl->Start(AllReduce(memory, 1, seconds(600)));
    watchdog.join();
  });
  // The abort may end what the queue is full of, and so the wait; else the process ends.
  EXPECT_THAT(codes, ElementsAre(AnyOf(0, 75), 9));
}

TEST(NcclFailure, AGpuThatIsLostIsNamed) {
  RunRanks(1, [](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto nccl = rank.Connect();
    Rank::Set("FAKE_LOST_AT", "3");
    ExpectFailure(
        RunToEnd(*nccl, AllReduce(memory, 1, seconds(60))), ErrorKind::kBroken,
        "CUDA_ERROR_DEVICE_UNAVAILABLE (the fake says so): a GPU of this machine is lost");
  });
}

TEST(NcclFailure, APeersDeathIsSurvivedByAbort) {
  const std::vector<int> codes = ExitCodes(2, [](Rank& rank) {
    const DeviceMemory memory = rank.ToDevice<float>({1});
    const auto nccl = rank.Connect();
    if (rank.rank() == 1) _exit(9);
    // Nothing tells NCCL on one machine; the communicator around it does.
    Rank::Must(nccl->Start(AllReduce(memory, 1, seconds(600))));
    nccl->Abort();
    ExpectFailure(FinishOne(*nccl), ErrorKind::kUnavailable, "aborted");
  });
  EXPECT_THAT(codes, ElementsAre(0, 9));
}

}  // namespace
}  // namespace lockstep::collectives
