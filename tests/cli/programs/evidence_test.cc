#include "cli/programs/evidence.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace lockstep::cli {
namespace {

TEST(EvidenceTest, WhatNoAgentSaysIsRefused) {
  for (const char* text :
       {"", "{}", "[]", R"({"machine": 0})", R"({"machine": -1, "ranks": []})",
        R"({"machine": 99999999999, "ranks": []})", R"({"machine": 0, "ranks": [7]})",
        R"({"machine": 0, "ranks": [{"rank": "3"}]})"}) {
    EXPECT_FALSE(ParseEvidence(text).ok()) << text;
  }
}

TEST(EvidenceTest, SaysWhoWaitsForWhomAndShowsEachRankInItsOrder) {
  const auto second =
      ParseEvidence(R"J({"job": "gpt", "machine": 1, "generation": "1-2", "ranks": [)J"
                    R"J({"rank": 2, "place": "load (a.py:2)", "evidence": "two\n"}]})J");
  const auto first =
      ParseEvidence(R"J({"job": "gpt", "machine": 0, "generation": "1-2", "ranks": [)J"
                    R"J({"rank": 0, "place": "barrier (a.py:1)", "evidence": "none\n"}, )J"
                    R"J({"rank": 1, "place": "barrier (a.py:1)", "evidence": "one\n"}]})J");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(EvidenceText({*second, *first}, {}),
            "gpt, generation 1-2: ranks 0-1 are in barrier (a.py:1), rank 2 is in load (a.py:2)\n"
            "\n--- rank 0, machine 0 ---\nnone\n"
            "\n--- rank 1, machine 0 ---\none\n"
            "\n--- rank 2, machine 1 ---\ntwo\n");
  EXPECT_EQ(EvidenceText({*second, *first}, {.rank = 2}),
            "gpt, generation 1-2: ranks 0-1 are in barrier (a.py:1), rank 2 is in load (a.py:2)\n"
            "\n--- rank 2, machine 1 ---\ntwo\n");
}

TEST(EvidenceTest, WhatProgramsWroteSteersNoTerminal) {
  const auto machine = ParseEvidence(
      R"({"job": "g\u001b]0;x", "machine": 0, "generation": "\u0007", "ranks": [{"rank": 0, "place": "\u001b[2J", "evidence": "\u001b[31m\u009b"}]})");
  ASSERT_TRUE(machine.ok());
  const std::string text = EvidenceText({*machine}, {});
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_EQ(text.find('\x07'), std::string::npos) << text;
  EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << text;
}

TEST(EvidenceTest, ShowsTheKernelsSideOnRequest) {
  const auto machine = ParseEvidence(
      R"J({"job": "gpt", "machine": 0, "generation": "1-1", "ranks": [{"rank": 0, "place": "", "evidence":)J"
      R"J("== process 4 python3 ==\nthread 4 python3: S\n[<0>] futex_wait\n-- its stacks --\nThread 4\n)J"
      R"J(thread pool: [<lambda>]\n== process 5 sh ==\nthread 5 sh: S\n"}]})J");
  ASSERT_TRUE(machine.ok());
  const std::string head = "gpt, generation 1-1: no rank runs\n\n--- rank 0, machine 0 ---\n";
  EXPECT_EQ(EvidenceText({*machine}, {}),
            head +
                "== process 4 python3 ==\n-- its stacks --\nThread 4\nthread pool: [<lambda>]\n"
                "== process 5 sh ==\n"
                "\n--kernel shows each thread's system call and kernel stack\n");
  EXPECT_EQ(EvidenceText({*machine}, {.kernel = true}),
            head +
                "== process 4 python3 ==\nthread 4 python3: S\n[<0>] futex_wait\n"
                "-- its stacks --\nThread 4\nthread pool: [<lambda>]\n"
                "== process 5 sh ==\nthread 5 sh: S\n");
}

TEST(EvidenceTest, AsksAllMachinesOfABigGangButFewAtOnce) {
  std::string folder = ::testing::TempDir() + "machines-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string script =
      "cd " + folder + R"J(; mkdir runs.$0; ls -d runs.* | wc -l >> seen; sleep 0.05
      echo "{\"machine\": $0, \"ranks\": [{\"rank\": $0, \"place\": \"main (a.py:1)\"}]}"
      rmdir runs.$0)J";
  std::vector<Question> questions;
  for (int i = 0; i < 40; ++i) {
    questions.push_back({"machine", {"sh", "-c", script, std::to_string(i)}});
  }
  testing::internal::CaptureStdout();
  EXPECT_EQ(AskAndShow({questions}, {}), 0);
  const std::string shown = testing::internal::GetCapturedStdout();
  EXPECT_NE(shown.find("ranks 0-39 are in main (a.py:1)"), std::string::npos) << shown;
  std::ifstream seen(folder + "/seen");
  int machines = 0;
  for (int at_once = 0; seen >> at_once; ++machines) EXPECT_LE(at_once, 16);
  EXPECT_EQ(machines, 40);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::cli
