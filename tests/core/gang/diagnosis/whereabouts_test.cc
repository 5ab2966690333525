#include "core/gang/diagnosis/whereabouts.h"

#include <gtest/gtest.h>

namespace lockstep::core {
namespace {

std::vector<Whereabouts> Places(const std::vector<std::string>& places) {
  std::vector<Whereabouts> ranks;
  for (const std::string& place : places) {
    ranks.push_back({static_cast<uint32_t>(ranks.size()), place});
  }
  return ranks;
}

TEST(PlaceOfTest, IsTheInnermostFunctionOfTheThreadThatTookTheSignal) {
  EXPECT_EQ(PlaceOf("Thread 0x00007f11 (most recent call first):\n"
                    "  File \"/usr/lib/python3.11/threading.py\", line 320 in wait\n"
                    "  File \"/app/metrics.py\", line 8 in send\n"
                    "\n"
                    "Current thread 0x00007f12 (most recent call first):\n"
                    "  File \"/app/train.py\", line 30 in load_batch\n"
                    "  File \"/app/train.py\", line 41 in <module>\n"),
            "load_batch (train.py:30)");
}

TEST(PlaceOfTest, OfAPackageNamesTheProgramsOwnCallToo) {
  EXPECT_EQ(PlaceOf("Current thread 0x1 (most recent call first):\n"
                    "  File \"/usr/lib/python3.11/selectors.py\", line 415 in select\n"
                    "  File \"/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py\", "
                    "line 1131 in _try_get_data\n"
                    "  File \"/v/lib/python3.11/site-packages/torch/utils/data/dataloader.py\", "
                    "line 633 in __next__\n"
                    "  File \"/app/train.py\", line 41 in train\n"),
            "_try_get_data (dataloader.py:1131) in train (train.py:41)");
}

TEST(PlaceOfTest, ReadsPySpyAsWell) {
  EXPECT_EQ(PlaceOf("Process 12: python train.py\nPython v3.11.2 (/usr/bin/python3.11)\n\n"
                    "Thread 13 (idle): \"loader\"\n"
                    "    get (queue.py:171)\n"
                    "Thread 12 (idle): \"MainThread\"\n"
                    "    barrier (train.py:12)\n"
                    "    <module> (train.py:40)\n"),
            "barrier (train.py:12)");
}

TEST(PlaceOfTest, OfTheBuiltInTrainerIsTheOperationThatItSaysAndPythonComesFirst) {
  EXPECT_EQ(PlaceOf("Flight: allreduce 16 \"bucket 2\"\nFlight: allreduce 17 \"a\x1b[31m\"\n"),
            "allreduce 17 \"a?[31m\"");
  EXPECT_EQ(PlaceOf("Flight: barrier 3\nCurrent thread 0x1\n  File \"/a/b.py\", line 1 in f\n"),
            "f (b.py:1)");
}

TEST(PlaceOfTest, OfHostileTextIsShortAndPrintable) {
  EXPECT_EQ(PlaceOf(""), "");
  EXPECT_EQ(PlaceOf("Current thread\n  File \"x\n    (:)\n"), "");
  const std::string place = PlaceOf("Current thread 0x1\n  File \"/a/b\x1b[31m.py\", line 1 in " +
                                    std::string(5000, 'f') + "\x07\n");
  EXPECT_LE(place.size(), kMaxPlace);
  EXPECT_NE(place.find("(b?[31m.py:1)"), std::string::npos) << place;
}

TEST(JudgeHangTest, NamesTheRankThatDoesNotWaitForItsPeers) {
  const HangVerdict verdict =
      JudgeHang(Places({"load_batch (train.py:30)", "all_reduce (c.py:5)"}));
  EXPECT_EQ(verdict.sentence,
            "rank 1 is in all_reduce (c.py:5), rank 0 is in load_batch (train.py:30)");
  EXPECT_EQ(verdict.awaited, 0U);
}

TEST(JudgeHangTest, NamesTheRankThatMissedTheBackwardPassOfItsPeers) {
  const HangVerdict verdict = JudgeHang(Places(
      {"_engine_run_backward (graph.py:824) in step (train.py:9)", "load_batch (train.py:30)",
       "_engine_run_backward (graph.py:824) in step (train.py:9)"}));
  EXPECT_EQ(verdict.awaited, 1U);
}

TEST(JudgeHangTest, NamesTheOneThatIsElsewhereThoughNoPlaceIsKnownToWait) {
  const HangVerdict verdict = JudgeHang(Places({"a (x.py:1)", "b (x.py:2)", "a (x.py:1)"}));
  EXPECT_EQ(verdict.sentence, "ranks 0,2 are in a (x.py:1), rank 1 is in b (x.py:2)");
  EXPECT_EQ(verdict.awaited, 1U);
}

TEST(JudgeHangTest, NamesTheRankThatNeverCameToTheOthersCollective) {
  const HangVerdict verdict =
      JudgeHang(Places({"allreduce 17 \"bucket 3\"", "its own code after allreduce 16 \"b\"",
                        "reduce-scatter 17 \"bucket 3\""}));
  EXPECT_EQ(verdict.awaited, 1U);
  EXPECT_EQ(JudgeHang(Places({"receive 4 \"norm\" from rank 1", "its own code (python3, state S)"}))
                .awaited,
            1U);
}

TEST(JudgeHangTest, NamesTheRankThatIsACollectiveBehind) {
  const HangVerdict verdict = JudgeHang(Places({"allreduce 17", "allreduce 16", "allreduce 17"}));
  EXPECT_EQ(verdict.sentence, "ranks 0,2 are in allreduce 17, rank 1 is in allreduce 16");
  EXPECT_EQ(verdict.awaited, 1U);
}

TEST(JudgeHangTest, BlamesNobodyWhereNobodyStandsOut) {
  EXPECT_EQ(JudgeHang(Places({"a (x.py:1)", "a (x.py:1)"})).awaited, std::nullopt);
  EXPECT_EQ(JudgeHang(Places({"a (x.py:1)", "b (x.py:1)"})).awaited, std::nullopt);
  EXPECT_EQ(JudgeHang(Places({"barrier (x.py:1)", "b (x.py:1)", "c (x.py:1)"})).awaited,
            std::nullopt);
}

TEST(JudgeHangTest, StaysOneSentenceHoweverScatteredTheRanksAre) {
  std::vector<std::string> places;
  for (int i = 0; i < 64; ++i) places.push_back("f" + std::to_string(i) + " (x.py:1)");
  EXPECT_EQ(JudgeHang(Places(places)).sentence,
            "rank 0 is in f0 (x.py:1), rank 1 is in f1 (x.py:1), rank 2 is in f2 (x.py:1), 60 more "
            "are elsewhere, rank 63 is in f63 (x.py:1)");
}

}  // namespace
}  // namespace lockstep::core
