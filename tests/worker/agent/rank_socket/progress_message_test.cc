#include "worker/agent/rank_socket/progress_message.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>

namespace lockstep::agent {
namespace {

template <typename T>
T Parse(std::string_view line) {
  const Result<ProgressMessage> message = ParseProgressMessage(line);
  EXPECT_TRUE(message.ok()) << line;
  if (!message.ok() || !std::holds_alternative<T>(*message)) {
    ADD_FAILURE() << "another kind of message: " << line;
    return {};
  }
  return std::get<T>(*message);
}

TEST(ProgressMessage, ReadsAReportAndTakesOtherNumbersAsMetrics) {
  const auto report = Parse<ProgressReport>(
      R"({"rank": 3, "step": 10, "loss": 2.5, "tokens": 4096, "total_steps": 1e3, "lr": 0.1,
          "note": "text is left out", "nested": {"a": 1}})");
  EXPECT_EQ(report.rank, 3U);
  EXPECT_EQ(report.step, 10);
  EXPECT_EQ(report.total_steps, 1000);
  EXPECT_EQ(report.loss, 2.5);
  EXPECT_EQ(report.tokens, 4096);
  EXPECT_EQ(report.metrics, (std::map<std::string, double>{{"lr", 0.1}}));
}

TEST(ProgressMessage, KeepsFiguresThatAreNotFiniteApart) {
  const auto report = Parse<ProgressReport>(
      R"({"step": 10, "loss": "NaN", "norm": "Infinity", "lr": "-Infinity", "note": "nan"})");
  EXPECT_TRUE(std::isnan(report.loss));
  EXPECT_TRUE(report.metrics.empty());
  ASSERT_EQ(report.broken.size(), 3U);
  EXPECT_TRUE(std::isnan(report.broken.at("loss")));
  EXPECT_EQ(report.broken.at("norm"), INFINITY);
  EXPECT_EQ(report.broken.at("lr"), -INFINITY);
}

TEST(ProgressMessage, AnEmptyObjectIsAHeartbeat) {
  const auto report = Parse<ProgressReport>("{}");
  EXPECT_EQ(report.step, 0);
  EXPECT_TRUE(std::isnan(report.loss));
}

TEST(ProgressMessage, ReadsTheQuestions) {
  const auto commit = Parse<CommitQuestion>(R"({"rank": 1, "id": 7, "commit": "step-1200"})");
  EXPECT_EQ(commit.rank, 1U);
  EXPECT_EQ(commit.id, 7U);
  EXPECT_EQ(commit.name, "step-1200");
  EXPECT_EQ(Parse<LatestQuestion>(R"({"id": 8, "latest": true})").id, 8U);
  EXPECT_EQ(Parse<EvidenceQuestion>(R"({"id": 9, "evidence": true})").id, 9U);
  const auto gang = Parse<GangQuestion>(R"({"id": 9, "gang": true, "after": 71})");
  EXPECT_EQ(gang.id, 9U);
  EXPECT_EQ(gang.after, 71U);
  EXPECT_EQ(Parse<GangQuestion>(R"({"gang": true})").after, 0U);
  EXPECT_FALSE(ParseProgressMessage(R"({"gang": true, "after": -1})").ok());
  EXPECT_EQ(Parse<ProgressReport>(R"({"gang": 4})").metrics.at("gang"), 4);
}

TEST(ProgressMessage, ReadsWhoLivesOnAndWhatItsCommitIsOf) {
  const auto rejoin = Parse<RejoinQuestion>(R"({"rank": 1, "id": 3, "rejoin": "1-3"})");
  EXPECT_EQ(rejoin.rank, 1U);
  EXPECT_EQ(rejoin.id, 3U);
  EXPECT_EQ(rejoin.generation, "1-3");
  EXPECT_EQ(Parse<LeftQuestion>(R"({"rank": 1, "id": 4, "left": "1-3"})").generation, "1-3");
  const auto commit =
      Parse<CommitQuestion>(R"({"rank": 1, "id": 7, "commit": "step-1", "generation": "1-3"})");
  EXPECT_EQ(commit.generation, "1-3");
  for (const char* line : {R"({"rank": 1, "rejoin": true})", R"({"rank": 1, "left": 3})",
                           R"({"rank": 1, "commit": "step-1", "generation": 3})"}) {
    EXPECT_FALSE(ParseProgressMessage(line).ok()) << line;
  }
}

TEST(ProgressMessage, ReadsWhatALauncherWantsToRunElsewhere) {
  const auto read =
      ParseProgressMessage(R"({"id":1,"run":"orted -x","host":"gpt-1","generation":"1-3"})");
  ASSERT_TRUE(read.ok());
  const auto& run = std::get<RunQuestion>(*read);
  EXPECT_EQ(run.id, 1U);
  EXPECT_EQ(run.command, "orted -x");
  EXPECT_EQ(run.host, "gpt-1");
  EXPECT_EQ(run.generation, "1-3");
  EXPECT_FALSE(ParseProgressMessage(R"({"id":1,"run":"a","host":"b"})").ok());
  EXPECT_FALSE(ParseProgressMessage(R"({"id":1,"run":1,"host":"b","generation":"1-3"})").ok());
  EXPECT_EQ(RunAnswer(1, 255, "no"), "{\"exitCode\":255,\"id\":1,\"problem\":\"no\"}\n");
}

TEST(ProgressMessage, ReadsWhereARankStoodInAGeneration) {
  const auto place = Parse<PlaceReport>(R"({"rank":3,"generation":"1-3","place":"allreduce 17"})");
  EXPECT_EQ(place.rank, 3U);
  EXPECT_EQ(place.generation, "1-3");
  EXPECT_EQ(place.place, "allreduce 17");
  // A program's own word is no place.
  EXPECT_EQ(Parse<ProgressReport>(R"({"rank":3,"step":1,"place":"home"})").step, 1);
  EXPECT_EQ(Parse<ProgressReport>(R"({"rank":3,"step":1,"generation":"1-3","place":7})").step, 1);
}

TEST(ProgressMessage, ReadsNewCodeAndThatItsEditorHasLeft) {
  const auto code = Parse<CodeQuestion>(
      R"({"id":5,"code":"5eed","incoming":"incoming-7","replaces":"","by":"alice","words":"a.py","watched":true})");
  EXPECT_EQ(code.digest, "5eed");
  EXPECT_EQ(code.incoming, "incoming-7");
  EXPECT_TRUE(code.watched);
  const auto left = Parse<EditorLeft>(R"({"id":6,"editor_left":"incoming-71"})");
  EXPECT_EQ(left.id, 6U);
  EXPECT_EQ(left.receiver, "incoming-71");
  EXPECT_FALSE(ParseProgressMessage(R"({"id":5,"code":"5eed"})").ok());
  EXPECT_FALSE(ParseProgressMessage(
                   R"({"id":5,"code":"5eed","incoming":"../x","replaces":"","by":"","words":""})")
                   .ok());
}

TEST(ProgressMessage, AProgramThatHasEndedSaysWhichProcessItWas) {
  const auto done = Parse<DoneReport>(R"({"rank":3,"id":5,"done":"1-3","pid":471})");
  EXPECT_EQ(done.rank, 3U);
  EXPECT_EQ(done.id, 5U);
  EXPECT_EQ(done.generation, "1-3");
  EXPECT_EQ(done.pid, 471);
  EXPECT_EQ(DoneAnswer(5), "{\"id\":5,\"ok\":true}\n");
  EXPECT_FALSE(ParseProgressMessage(R"({"rank":3,"id":5,"done":"1-3","pid":-1})").ok());
  // A metric of that name.
  EXPECT_EQ(Parse<ProgressReport>(R"({"rank":3,"step":1,"done":0.5})").metrics.at("done"), 0.5);
}

TEST(ProgressMessage, ACommitsNameIsOnePathComponent) {
  for (const char* name : {"", ".", "..", "a/b", "/etc", "../up", "a\\u0000b"}) {
    EXPECT_FALSE(ParseProgressMessage(R"({"commit": ")" + std::string(name) + R"("})").ok())
        << name;
  }
  EXPECT_FALSE(ParseProgressMessage(R"({"commit": 7})").ok());
}

TEST(ProgressMessage, RefusesNumbersThatAreNoCounts) {
  for (const char* line :
       {R"({"rank": -1})", R"({"rank": 4294967296})", R"({"step": 1.5})", R"({"step": 1e300})",
        R"({"step": -9223372036854775808})", R"({"step": 18446744073709551615})",
        R"({"step": "10"})", R"({"id": null})"}) {
    EXPECT_FALSE(ParseProgressMessage(line).ok()) << line;
  }
}

TEST(ProgressMessage, RefusesWhatIsNoObjectOnOneLine) {
  for (const char* line :
       {"", "[]", "7", "null", "{", "{}{}", "\xFF", R"({"loss": NaN})", R"({"loss": 1e999})"}) {
    EXPECT_FALSE(ParseProgressMessage(line).ok()) << line;
  }
  EXPECT_FALSE(ParseProgressMessage(std::string(60'000, '[')).ok());
  EXPECT_FALSE(ParseProgressMessage("{\"a\": \"" + std::string(70'000, 'x') + "\"}").ok());
}

TEST(ProgressMessage, HoldsNoMoreMetricsThanItsLimit) {
  std::string line = "{\"rank\": 0";
  for (int i = 0; i < 500; ++i) line += ", \"m" + std::to_string(i) + "\": 1";
  EXPECT_EQ(Parse<ProgressReport>(line + "}").metrics.size(), kMaxMetrics);
}

TEST(ProgressMessage, AnswersAreOneLineOfJson) {
  EXPECT_EQ(CommitAnswer(7, "/ckpt/1"), "{\"final\":\"/ckpt/1\",\"id\":7,\"ok\":true}\n");
  EXPECT_EQ(CommitRefusal(7, "late"), "{\"id\":7,\"ok\":false,\"reason\":\"late\"}\n");
  EXPECT_EQ(LatestAnswer(8, ""), "{\"id\":8,\"latest\":null}\n");
  EXPECT_EQ(EvidenceAnswer(9, std::string("/run/e")), "{\"evidence\":\"/run/e\",\"id\":9}\n");
  EXPECT_EQ(EvidenceAnswer(9, Error::Unavailable("busy")), "{\"id\":9,\"reason\":\"busy\"}\n");
  EXPECT_EQ(GangAnswer(9, 71, std::string("/run/g")),
            "{\"file\":\"/run/g\",\"id\":9,\"version\":71}\n");
  EXPECT_EQ(GangAnswer(9, 71, std::string()), "{\"file\":\"\",\"id\":9,\"version\":71}\n");
  EXPECT_EQ(GangAnswer(9, 71, Error::Unavailable("busy")), "{\"id\":9,\"reason\":\"busy\"}\n");
}

}  // namespace
}  // namespace lockstep::agent
