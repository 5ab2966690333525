// Ranks that die, stop, or give up: what the others learn, and how soon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/worker/ras/ras_server.h"
#include "tests/worker/trainer/collectives/rank_processes.h"
#include "tests/worker/trainer/collectives/ranks.h"
#include "worker/trainer/collectives/collectives.h"
#include "worker/trainer/collectives/store/analyze.h"

namespace lockstep::collectives {
namespace {

using testing::UnitTest;

// An empty folder of this test's own.
std::string Folder() {
  const auto* test = UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(test->test_suite_name()) + "." + test->name();
  std::replace(name.begin(), name.end(), '/', '_');
  const std::string path = testing::TempDir() + name + "." + std::to_string(getpid());
  std::filesystem::remove_all(path);
  return path;
}

nlohmann::json Evidence(const std::string& folder, int rank) {
  std::ifstream file(folder + "/rank-0000" + std::to_string(rank) + ".json");
  EXPECT_TRUE(file.is_open()) << "no evidence of rank " << rank;
  return nlohmann::json::parse(file, nullptr, false);
}

std::string Kind(ErrorKind kind) { return "failed " + std::to_string(static_cast<int>(kind)); }

void Sleep() {
  for (;;) pause();
}

// Until on_failure ends the process.
int AllReduceForever(Communicator& all) {
  std::vector<float> values(100'000, 1);
  while (all.AllReduce({values.data(), values.size()}, Reduction::kMax, "forever").ok()) {
  }
  Sleep();
  return 0;
}

class DeathTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Victims, DeathTest, testing::Values(0, 1, 2));

TEST_P(DeathTest, AKilledRankIsNamedByAllOthersWhileTheyAreAtWork) {
  const int victim = GetParam();
  RankProcesses ranks(TestOptions(3),
                      [](Communicator& all, const Told&) { return AllReduceForever(all); });
  ranks.AwaitReady();
  ranks.Signal(victim, SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    const std::string line = ranks.Line(rank);
    EXPECT_EQ(line.rfind(Kind(ErrorKind::kUnavailable), 0), 0u) << line;
    EXPECT_NE(line.find("rank " + std::to_string(victim) + " is lost"), line.npos) << line;
    EXPECT_EQ(ranks.ExitCode(rank), 75);
  }
}

TEST_P(DeathTest, AKilledRankIsNamedByAllOthersWhileTheyComputeAlone) {
  const int victim = GetParam();
  RankProcesses ranks(TestOptions(3), [](Communicator&, const Told&) {
    Sleep();
    return 0;
  });
  ranks.AwaitReady();
  ranks.Signal(victim, SIGKILL);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    const std::string line = ranks.Line(rank);
    EXPECT_EQ(line, Kind(ErrorKind::kUnavailable) + " rank " + std::to_string(victim) +
                        " is lost: its connection ended");
    EXPECT_EQ(ranks.ExitCode(rank), 75);
  }
}

class StoppedTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Victims, StoppedTest, testing::Values(0, 2));

TEST_P(StoppedTest, AStoppedRankIsNamedAndTheOthersLeaveEvidenceThatNamesItToo) {
  const int victim = GetParam();
  Options options = TestOptions(3);
  options.operation_timeout = milliseconds(2500);
  options.evidence_dir = Folder();
  RankProcesses ranks(options,
                      [](Communicator& all, const Told&) { return AllReduceForever(all); });
  ranks.AwaitReady();
  ranks.Signal(victim, SIGSTOP);
  const std::string name = "rank " + std::to_string(victim);
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim) continue;
    const std::string line = ranks.Line(rank);
    EXPECT_EQ(line.rfind(Kind(ErrorKind::kTimeout), 0), 0u) << line;
    EXPECT_NE(line.find(name + " stopped answering"), line.npos) << line;
    EXPECT_EQ(ranks.ExitCode(rank), 75);
    const nlohmann::json evidence = Evidence(options.evidence_dir, rank);
    EXPECT_EQ(evidence["blamed"], victim);
    EXPECT_EQ(evidence["world"], 3);
    ASSERT_FALSE(evidence["operations"].empty());
    EXPECT_EQ(evidence["operations"].back()["tag"], "forever");
    EXPECT_NE(evidence["operations"].back()["state"], "finished");
  }
  const Result<std::string> verdict = Analyze(options.evidence_dir);
  ASSERT_TRUE(verdict.ok()) << verdict.error().message;
  EXPECT_EQ(verdict->rfind(name + " fell behind", 0), 0u) << *verdict;
  std::filesystem::remove_all(options.evidence_dir);
}

TEST(StopTest, ATimeInWhichRank0HadNoCoreIsNobodysSilence) {
  Options options = TestOptions(3);
  options.operation_timeout = seconds(4);
  RankProcesses ranks(options,
                      [](Communicator& all, const Told&) { return AllReduceForever(all); });
  ranks.AwaitReady();
  ranks.Signal(2, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(2500));
  ranks.Signal(0, SIGSTOP);
  std::this_thread::sleep_for(milliseconds(2500));
  ranks.Signal(0, SIGCONT);  // rank 1 has asked meanwhile
  for (const int rank : {0, 1}) {
    const std::string line = ranks.Line(rank);
    EXPECT_NE(line.find(": rank 2 stopped answering"), line.npos) << line;
    EXPECT_EQ(ranks.ExitCode(rank), 75);
  }
}

TEST(StopTest, WhoHearsOnlyThatAPeerGaveUpNamesTheStoppedRankToo) {
  std::vector<Options> each(3, TestOptions(3));
  each[1].operation_timeout = seconds(3);
  // Rank 2 waits for rank 1, which waits for rank 0.
  RankProcesses ranks(each, [](Communicator& all, const Told&) {
    std::vector<float> values(10);
    if (all.rank() > 0) {
      [[maybe_unused]] const Status ended =
          all.Receive({values.data(), values.size()}, all.rank() - 1, "never sent");
    }
    Sleep();
    return 0;
  });
  ranks.AwaitReady();
  ranks.Signal(0, SIGSTOP);
  for (const int rank : {1, 2}) {
    const std::string line = ranks.Line(rank);
    EXPECT_NE(line.find("rank 0 stopped answering"), line.npos) << line;
    EXPECT_EQ(ranks.ExitCode(rank), 75);
  }
}

TEST(LateTest, ARankThatNeverIssuesTheOperationIsNamedOnAllRanks) {
  Options options = TestOptions(3);
  options.operation_timeout = seconds(3);
  options.evidence_dir = Folder();
  std::atomic<int> told{0};
  options.on_failure = [&](const Error&) {
    ++told;
    told.notify_all();
  };
  std::vector<std::string> standing(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      Options mine = options;
      mine.rank = rank;
      mine.on_end = [&standing, rank](const std::string& said) {
        standing[static_cast<size_t>(rank)] += said;
      };
      auto made = Connect(mine);
      ASSERT_TRUE(made.ok()) << made.error().message;
      Communicator& all = **made;
      ASSERT_TRUE(all.Barrier("together").ok());
      if (rank != 1) {
        const Status late = all.Barrier("gradients ready");
        ASSERT_FALSE(late.ok());
        EXPECT_EQ(late.error().kind, ErrorKind::kTimeout);
        EXPECT_NE(late.error().message.find("rank 1 issued only 1"), std::string::npos)
            << late.error().message;
      }
      // Until rank 1's watchdog has heard, and written its evidence, its next operation would
      // begin.
      for (int seen = told; seen < 3; seen = told) told.wait(seen);
      if (rank != 1) return;
      // Its next operation fails, with the same words.
      const Status next = all.Barrier("too late");
      ASSERT_FALSE(next.ok());
      EXPECT_NE(next.error().message.find("rank 1 issued only 1"), std::string::npos);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, 3);
  EXPECT_THAT(standing, testing::ElementsAre("barrier 2 \"gradients ready\"",
                                             "its own code after barrier 1 \"together\"",
                                             "barrier 2 \"gradients ready\""));
  const Result<std::string> verdict = Analyze(options.evidence_dir);
  ASSERT_TRUE(verdict.ok()) << verdict.error().message;
  EXPECT_EQ(
      *verdict,
      "rank 1 fell behind: it never issued barrier 2 \"gradients ready\", which ranks 0 and 2 "
      "began");
  std::filesystem::remove_all(options.evidence_dir);
}

TEST(LateTest, WhatNcclsRasKnowsIsToldBesideWhoIsBehind) {
  const ras::RasServer nccl({});
  setenv("NCCL_RAS_ADDR", nccl.named().c_str(), 1);
  Options options = TestOptions(2);
  options.operation_timeout = seconds(3);
  std::atomic<int> told{0};
  options.on_failure = [&](const Error& error) {
    EXPECT_EQ(error.message.find("rank 0 waits for barrier 2 \"late\": rank 1 issued only 1 "
                                 "operations and is busy elsewhere; NCCL's RAS: Missing "
                                 "communicator data from 1 job process, Process 3487984 on node"),
              0U)
        << error.message;
    ++told;
    told.notify_all();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options mine = options;
      mine.rank = rank;
      auto made = Connect(mine);
      ASSERT_TRUE(made.ok()) << made.error().message;
      ASSERT_TRUE((*made)->Barrier("together").ok());
      if (rank == 0) EXPECT_FALSE((*made)->Barrier("late").ok());
      for (int seen = told; seen < 2; seen = told) told.wait(seen);
    });
  }
  for (std::thread& thread : threads) thread.join();
  unsetenv("NCCL_RAS_ADDR");
}

TEST(AbortTest, AnotherThreadsAbortWakesTheWaiterHereAndAtThePeersWhichAreTold) {
  Options options = TestOptions(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options mine = options;
      mine.rank = rank;
      std::atomic<int> told{0};
      mine.on_failure = [&](const Error&) {
        ++told;
        told.notify_all();
      };
      auto made = Connect(mine);
      ASSERT_TRUE(made.ok()) << made.error().message;
      // Both receive, nobody sends: only an abort ends it.
      std::vector<float> values(10);
      std::thread aborter;
      if (rank == 1) aborter = std::thread([&] { (*made)->Abort("the user said so"); });
      const Status ended = (*made)->Receive({values.data(), 10}, 1 - rank, "never sent");
      ASSERT_FALSE(ended.ok());
      EXPECT_EQ(ended.error().kind, ErrorKind::kUnavailable);
      EXPECT_EQ(ended.error().message, "rank 1 aborted: the user said so");
      if (aborter.joinable()) aborter.join();
      if (rank == 0) told.wait(0);
      made = Error::Internal("destroyed");
      EXPECT_EQ(told, rank == 0 ? 1 : 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class RingAbortTest : public testing::TestWithParam<core::Reduce> {};
INSTANTIATE_TEST_SUITE_P(Both, RingAbortTest,
                         testing::Values(core::Reduce::kTree, core::Reduce::kRing));

TEST_P(RingAbortTest, AnAllreduceThatAPeerNeverJoinsIsEndedByItsAbort) {
  Options options = TestOptions(2);
  options.algorithm = GetParam();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options mine = options;
      mine.rank = rank;
      auto made = Connect(mine);
      ASSERT_TRUE(made.ok()) << made.error().message;
      if (rank == 1) {
        (*made)->Abort("out of memory");
        return;
      }
      std::vector<float> values(2'000'000);
      const Status ended =
          (*made)->AllReduce({values.data(), values.size()}, Reduction::kSum, "alone");
      ASSERT_FALSE(ended.ok());
      EXPECT_EQ(ended.error().message, "rank 1 aborted: out of memory");
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MismatchTest, DifferentSizesEndAtTheDeadlineAndNotInACorruptedBuffer) {
  Options options = TestOptions(2);
  options.operation_timeout = milliseconds(300);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      Options mine = options;
      mine.rank = rank;
      auto made = Connect(mine);
      ASSERT_TRUE(made.ok()) << made.error().message;
      std::vector<float> values(100 + static_cast<size_t>(rank));
      const Status ended =
          (*made)->AllReduce({values.data(), values.size()}, Reduction::kSum, "uneven");
      ASSERT_FALSE(ended.ok());
      EXPECT_EQ(ended.error().kind, ErrorKind::kTimeout) << ended.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FinishTest, ARankThatLeavesOnPurposeIsNotLost) {
  Options options = TestOptions(3);
  std::atomic<int> failures{0};
  options.on_failure = [&](const Error&) { ++failures; };
  RunRanksWith(options, [](Communicator& all) {
    std::vector<float> values(10);
    // Rank 2 leaves first; the others go on without it.
    if (all.rank() == 0) {
      EXPECT_TRUE(all.Send({values.data(), 10}, 1, "still here").ok());
    }
    if (all.rank() == 1) {
      EXPECT_TRUE(all.Receive({values.data(), 10}, 0, "still here").ok());
    }
  });
  EXPECT_EQ(failures, 0);
}

}  // namespace
}  // namespace lockstep::collectives
