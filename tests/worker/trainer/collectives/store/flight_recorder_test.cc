// What is remembered of operations, and what Analyze makes of several ranks' dumps.
#include "worker/trainer/collectives/store/flight_recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "worker/trainer/collectives/store/analyze.h"

namespace lockstep::collectives {
namespace {

Operation Collective(OperationKind kind, uint64_t number) {
  return {.kind = kind, .number = number, .in = {}, .out = {}};
}

Operation Pair(OperationKind kind, uint64_t number, int peer) {
  return {.kind = kind, .number = number, .in = {}, .out = {}, .peer = peer};
}

TEST(FlightRecorderTest, KeepsTheLastTwoThousandOldestFirst) {
  FlightRecorder recorder;
  for (uint64_t i = 1; i <= 2500; ++i) {
    const auto ticket = recorder.Enqueued(Collective(OperationKind::kBarrier, i), 0, "", Time(i));
    recorder.Started(ticket, Time(i + 1));
    recorder.Finished(ticket, Time(i + 2));
  }
  const auto all = recorder.Operations();
  ASSERT_EQ(all.size(), 2000u);
  EXPECT_EQ(all.front().number, 501u);
  EXPECT_EQ(all.back().number, 2500u);
  EXPECT_EQ(recorder.last_issued(), 2500u);
  EXPECT_EQ(recorder.last_finished(), 2500u);
  EXPECT_FALSE(recorder.Running());
}

TEST(FlightRecorderTest, RunningIsTheOldestThatWasStarted) {
  FlightRecorder recorder;
  const auto first =
      recorder.Enqueued(Collective(OperationKind::kAllReduce, 1), 8, "bucket 0", Time(1));
  recorder.Enqueued(Collective(OperationKind::kAllReduce, 2), 8, "bucket 1", Time(2));
  EXPECT_FALSE(recorder.Running());
  recorder.Started(first, Time(3));
  ASSERT_TRUE(recorder.Running());
  EXPECT_EQ(recorder.Running()->Describe(), "allreduce 1 \"bucket 0\"");
  recorder.Finished(first, Time(4));
  EXPECT_FALSE(recorder.Running());  // the second one waits
}

TEST(FlightRecorderTest, SaysInWhichOperationTheRankIsOrAfterWhich) {
  FlightRecorder recorder;
  EXPECT_EQ(recorder.Standing(), "its own code before any operation");
  const auto first =
      recorder.Enqueued(Collective(OperationKind::kAllReduce, 1), 8, "bucket 0", Time(1));
  const auto second = recorder.Enqueued(Pair(OperationKind::kSend, 1, 3), 8, "norm", Time(2));
  EXPECT_EQ(recorder.Standing(), "allreduce 1 \"bucket 0\" of 8 bytes");
  recorder.Finished(first, Time(4));
  // Though it has not been started.
  EXPECT_EQ(recorder.Standing(), "send 1 \"norm\" to rank 3 of 8 bytes");
  recorder.Finished(second, Time(5));
  EXPECT_EQ(recorder.Standing(), "its own code after send 1 \"norm\" to rank 3");
}

TEST(FlightRecorderTest, ADumpHoldsWhatAReaderNeedsEvenWithTagsThatAreNoText) {
  FlightRecorder recorder;
  recorder.Enqueued(Pair(OperationKind::kReceive, 3, 1), 64, "\xff\"", Time(5));
  const auto dump = nlohmann::json::parse(recorder.Dump({.rank = 2,
                                                         .world = 4,
                                                         .identity = "job/1",
                                                         .backend = "Gloo",
                                                         .reason = "late",
                                                         .blamed = 1}));
  EXPECT_EQ(dump["rank"], 2);
  EXPECT_EQ(dump["world"], 4);
  EXPECT_EQ(dump["reason"], "late");
  EXPECT_EQ(dump["blamed"], 1);
  EXPECT_GT(dump["clock"]["boot"], 0);
  EXPECT_GT(dump["clock"]["utc"], 0);
  const auto& operation = dump["operations"][0];
  EXPECT_EQ(operation["kind"], "receive");
  EXPECT_EQ(operation["number"], 3);
  EXPECT_EQ(operation["peer"], 1);
  EXPECT_EQ(operation["bytes"], 64);
  EXPECT_EQ(operation["state"], "enqueued");
}

class AnalyzeTest : public testing::Test {
 protected:
  AnalyzeTest() { std::filesystem::remove_all(folder_); }
  ~AnalyzeTest() override { std::filesystem::remove_all(folder_); }

  // A rank that finished collectives up to `finished` and waits in those up to `issued`, the last
  // of which is `last`.
  void Rank(int rank, int world, uint64_t issued, uint64_t finished,
            OperationKind last = OperationKind::kAllReduce) {
    FlightRecorder recorder;
    for (uint64_t i = 1; i <= issued; ++i) {
      const auto kind = i == issued ? last : OperationKind::kAllReduce;
      const auto ticket = recorder.Enqueued(Collective(kind, i), 400, "bucket", Time(i));
      recorder.Started(ticket, Time(i));
      if (i <= finished) recorder.Finished(ticket, Time(i));
    }
    Write(recorder, rank, world);
  }
  void Write(const FlightRecorder& recorder, int rank, int world) {
    const EvidenceHeader header{
        .rank = rank, .world = world, .identity = identity_, .backend = {}, .reason = "late"};
    ASSERT_TRUE(recorder.Write(folder_, header).ok());
  }
  std::string Verdict() const {
    const Result<std::string> verdict = Analyze(folder_);
    return verdict.ok() ? *verdict : verdict.error().message;
  }

  std::string identity_;
  const std::string folder_ =
      testing::TempDir() + "analyze." + std::to_string(getpid()) + "/evidence";
};

TEST_F(AnalyzeTest, NamesTheRankThatNeverIssuedWhatTheOthersBegan) {
  Rank(0, 3, 17, 16);
  Rank(1, 3, 17, 16);
  Rank(2, 3, 16, 16);
  EXPECT_EQ(
      Verdict(),
      "rank 2 fell behind: it never issued allreduce 17 \"bucket\", which ranks 0 and 1 began");
}

TEST_F(AnalyzeTest, ARankWithoutEvidenceIsTheSuspect) {
  Rank(0, 4, 17, 16);
  Rank(1, 4, 17, 16);
  Rank(3, 4, 17, 16);
  EXPECT_EQ(Verdict(),
            "rank 2 fell behind: it left no evidence (stopped, or dead); ranks 0, 1 and 3 wait in "
            "allreduce 17 \"bucket\"");
}

TEST_F(AnalyzeTest, NamesTheRankWhoseOperationIsAnother) {
  Rank(0, 3, 9, 8);
  Rank(1, 3, 9, 8, OperationKind::kBarrier);
  Rank(2, 3, 9, 8);
  EXPECT_EQ(Verdict(),
            "rank 1 differs: there it is barrier 9 \"bucket\" of 400 bytes, where ranks 0 and 2 "
            "have allreduce 9 \"bucket\" of 400 bytes");
}

TEST_F(AnalyzeTest, NamesTheSenderThatNeverSent) {
  FlightRecorder waits;
  waits.Started(waits.Enqueued(Pair(OperationKind::kReceive, 3, 1), 64, "norm", Time(5)), Time(6));
  Write(waits, 0, 2);
  Write(FlightRecorder(), 1, 2);
  EXPECT_EQ(Verdict(),
            "rank 1 fell behind: it has no part in receive 3 \"norm\" from rank 1, in which rank 0 "
            "waits");
}

TEST_F(AnalyzeTest, NamesTheNeighbourThatHasNoPartInAnExchange) {
  FlightRecorder waits;
  waits.Started(waits.Enqueued(Pair(OperationKind::kExchange, 7, 1), 64, "gradient", Time(5)),
                Time(6));
  Write(waits, 0, 2);
  Write(FlightRecorder(), 1, 2);
  EXPECT_EQ(Verdict(),
            "rank 1 fell behind: it has no part in exchange 7 \"gradient\" with rank 1, in which "
            "rank 0 waits");
}

TEST_F(AnalyzeTest, WhereAllWaitInTheSameOperationNobodyFellBehind) {
  Rank(0, 2, 5, 4);
  Rank(1, 2, 5, 4);
  EXPECT_EQ(Verdict(), "no rank fell behind: late; ranks 0 and 1 wait in allreduce 5 \"bucket\"");
}

TEST_F(AnalyzeTest, FilesOfAnEarlierGenerationAreLeftAside) {
  identity_ = "job/1";
  Rank(2, 3, 30, 30);
  identity_ = "job/2";
  Rank(0, 3, 17, 16);
  Rank(1, 3, 17, 16);
  EXPECT_EQ(Verdict().rfind("rank 2 fell behind: it left no evidence", 0), 0u) << Verdict();
}

TEST_F(AnalyzeTest, SaysWhatIsWrongWithAFolderOrAFile) {
  EXPECT_NE(Verdict().find("reading " + folder_), std::string::npos);
  std::filesystem::create_directories(folder_);
  EXPECT_NE(Verdict().find("no rank-NNNNN.json"), std::string::npos);
  std::ofstream(folder_ + "/rank-00000.json") << "{\"rank\": 0}";
  EXPECT_NE(Verdict().find("rank-00000.json is not a rank's evidence"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::collectives
