#include "operator/kube/watch/watch_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "operator/kube/watch/watch_sink.h"

namespace lockstep::kube::watch_loop_test {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Kind = WatchLoop::Kind;

std::string Event(const std::string& type, const Json& object) {
  return Json({{"type", type}, {"object", object}}).dump() + "\n";
}
Json Pod(const std::string& name, int version) {
  return {{"metadata", {{"name", name}, {"resourceVersion", std::to_string(version)}}}};
}
std::string Added(const std::string& name, int version) {
  return Event("ADDED", Pod(name, version));
}
std::string Modified(const std::string& name, int version) {
  return Event("MODIFIED", Pod(name, version));
}
std::string Deleted(const std::string& name, int version) {
  return Event("DELETED", Pod(name, version));
}
std::string Bookmark(int version) {
  return Event("BOOKMARK", {{"metadata", {{"resourceVersion", std::to_string(version)}}}});
}
std::string EndOfState(int version) {
  return Event("BOOKMARK", {{"metadata",
                             {{"resourceVersion", std::to_string(version)},
                              {"annotations", {{"k8s.io/initial-events-end", "true"}}}}}});
}
Json StatusObject(int code, const std::string& reason, const std::string& message) {
  return {{"kind", "Status"}, {"code", code}, {"reason", reason}, {"message", message}};
}
std::string Page(const std::vector<Json>& pods, int version, const std::string& next = "") {
  return Json({{"metadata", {{"resourceVersion", std::to_string(version)}, {"continue", next}}},
               {"items", pods}})
      .dump();
}
Response Answer(int status, std::string body = "") {
  return {.status = status, .body = std::move(body), .retry_after = {}};
}

class WatchLoopTest : public testing::Test {
 protected:
  WatchLoopTest()
      : sink_({.on_batch = [this](const Batch<PodView>& batch) { Tell(batch); },
               .on_problem = [this](const Error& error) { problems_.push_back(error); },
               .on_unreadable = [this](const ObjectMeta& meta,
                                       const std::string&) { unreadable_.push_back(meta.name); },
               .on_restart = [this] { ++restarts_; }}),
        loop_({.path = "/api/v1/pods", .query = "labelSelector=x", .seed = 7}, &sink_) {}

  // Batches as "=7 a@1 b@2" (a whole state) or "+9 a@8 -b@9"; "!c@9" cannot be read.
  void Tell(const Batch<PodView>& batch) {
    std::string text = (batch.replace ? "=" : "+") + batch.resource_version;
    for (const auto& event : batch.events) {
      const bool deleted = event.kind == EventKind::kDeleted;
      text += std::string(event.unreadable ? " !" : " ") + (deleted ? "-" : "") +
              event.object.meta.name + "@" + event.object.meta.resource_version;
    }
    told_.push_back(text);
  }

  // What the loop asks for now; waits (virtually) if it must, and for how long is in waited_.
  WatchLoop::Step Next() {
    WatchLoop::Step step = loop_.Next(now_);
    waited_ = Duration(0);
    if (step.kind == Kind::kWait) {
      waited_ = step.until - now_;
      now_ = step.until;
      step = loop_.Next(now_);
    }
    EXPECT_NE(step.kind, Kind::kWait);
    return step;
  }
  std::string NextPath(Kind kind) {
    WatchLoop::Step step = Next();
    EXPECT_EQ(step.kind, kind);
    return step.request.path;
  }
  // Opens the stream that is asked for, and it is accepted.
  std::string Accept() {
    std::string path = NextPath(Kind::kStream);
    EXPECT_TRUE(loop_.OnHead(Answer(200), now_));
    return path;
  }
  bool Data(const std::string& data) { return loop_.OnData(data, now_); }
  void End(const Status& status = {}) { loop_.OnEnd(status, now_); }
  void Silence() {
    now_ = loop_.deadline();
    loop_.OnEnd(WatchLoop::Silence(), now_);
  }
  // Following from version 7 with pods a and b.
  void Follow() {
    Accept();
    EXPECT_TRUE(Data(Added("a", 2) + Added("b", 5) + EndOfState(7)));
    told_.clear();
  }

  std::vector<std::string> told_;
  std::vector<Error> problems_;
  std::vector<std::string> unreadable_;
  int restarts_ = 0;
  Time now_ = seconds(5000);
  Duration waited_{};
  TypedSink<PodView> sink_;
  WatchLoop loop_;
};

TEST_F(WatchLoopTest, ReadsTheWholeStateAndItsChangesInOneStream) {
  const std::string path = Accept();
  EXPECT_THAT(path, HasSubstr("/api/v1/pods?labelSelector=x&sendInitialEvents=true&"
                              "resourceVersionMatch=NotOlderThan&watch=true&"
                              "allowWatchBookmarks=true&timeoutSeconds="));
  EXPECT_THAT(path, Not(HasSubstr("resourceVersion=")));
  EXPECT_TRUE(Data(Added("b", 5) + Added("a", 2)));
  EXPECT_THAT(told_, IsEmpty());
  EXPECT_TRUE(Data(EndOfState(7) + Modified("a", 8)));
  EXPECT_TRUE(Data(Deleted("b", 9) + Bookmark(12)));
  EXPECT_THAT(told_, ElementsAre("=7 b@5 a@2", "+8 a@8", "+12 -b@9"));
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(WatchLoopTest, ChangesThatCameWithinTheInitialStateArePartOfIt) {
  Accept();
  Data(Added("a", 2) + Added("b", 5) + Modified("a", 6) + Deleted("b", 7) + EndOfState(7));
  EXPECT_THAT(told_, ElementsAre("=7 a@6"));
}

TEST_F(WatchLoopTest, P7_AWatchThatEndsIsTakenUpWhereItWas) {
  Follow();
  Data(Modified("a", 8));
  End();
  const std::string path = Accept();
  EXPECT_EQ(waited_, Duration(0));
  EXPECT_THAT(path, HasSubstr("resourceVersion=8&"));
  EXPECT_THAT(path, Not(HasSubstr("sendInitialEvents")));
  Data(Modified("b", 9));
  EXPECT_THAT(told_, ElementsAre("+8 a@8", "+9 b@9"));
  EXPECT_EQ(restarts_, 1);
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(WatchLoopTest, P7_AnInitialStateThatBreaksOffIsReadAgainAndNeverMixed) {
  Accept();
  Data(Added("a", 2) + Added("gone", 3));
  End(Error::Unavailable("reset"));
  EXPECT_THAT(Accept(), HasSubstr("sendInitialEvents=true"));
  Data(Added("a", 2) + EndOfState(9));
  EXPECT_THAT(told_, ElementsAre("=9 a@2"));
}

TEST_F(WatchLoopTest, P8_HalfAnEventIsNoEvent) {
  Follow();
  Data(Modified("a", 8) + Modified("b", 9).substr(0, 30));
  End(Error::Unavailable("reset"));
  EXPECT_THAT(Accept(), HasSubstr("resourceVersion=8&"));
  Data(Modified("b", 9));
  EXPECT_THAT(told_, ElementsAre("+8 a@8", "+9 b@9"));
}

TEST_F(WatchLoopTest, P9_AStreamSilentForTwoMinutesIsDeadAndTakenUpElsewhere) {
  Follow();
  const Time opened = now_;
  EXPECT_EQ(loop_.deadline(), opened + seconds(120));
  now_ += seconds(60);
  Data(Bookmark(9));
  EXPECT_EQ(loop_.deadline(), opened + seconds(180));
  Silence();
  EXPECT_THAT(Accept(), HasSubstr("resourceVersion=9&"));
  EXPECT_EQ(waited_, Duration(0));
}

TEST_F(WatchLoopTest, P10_BytesMayComeOneByOne) {
  Accept();
  const std::string all = Added("a", 2) + EndOfState(7) + Modified("a", 8) + Bookmark(9);
  for (char byte : all) ASSERT_TRUE(Data(std::string(1, byte)));
  EXPECT_THAT(told_, ElementsAre("=7 a@2", "+8 a@8", "+9"));
}

TEST_F(WatchLoopTest, P10_AnObjectAsLargeAsEtcdTakesIsRead) {
  Follow();
  Json pod = Pod("a", 8);
  pod["metadata"]["annotations"]["big"] = std::string(1'500'000, 'x');
  const std::string event = Event("MODIFIED", pod);
  for (size_t at = 0; at < event.size(); at += 4096) ASSERT_TRUE(Data(event.substr(at, 4096)));
  EXPECT_THAT(told_, ElementsAre("+8 a@8"));
}

TEST_F(WatchLoopTest, P10_ALineWithoutEndIsGivenUp) {
  Follow();
  const std::string piece(1 << 20, 'x');
  int pieces = 0;
  while (Data(piece)) ASSERT_LT(++pieces, 20);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_EQ(problems_[0].kind, ErrorKind::kTooLarge);
  EXPECT_THAT(Accept(), HasSubstr("resourceVersion=7&"));
  EXPECT_GT(waited_, Duration(0));
}

// 1.4 MB in etcd; as JSON each of these letters takes six bytes.
TEST_F(WatchLoopTest, P10_AnObjectThatIsLongOnlyAsJsonIsRead) {
  Follow();
  std::string letters;
  for (int i = 0; i < 1'400'000; ++i) letters += R"(\u003c)";
  const std::string event =
      R"({"type":"ADDED","object":{"metadata":{"name":"c","resourceVersion":"8"},"spec":")" +
      letters + "\"}}\n";
  for (size_t at = 0; at < event.size(); at += 65536) ASSERT_TRUE(Data(event.substr(at, 65536)));
  EXPECT_THAT(told_, ElementsAre("+8 c@8"));
}

std::string Huge(const std::string& type, const std::string& name, int version) {
  return R"({"type":")" + type + R"(","object":{"metadata":{"name":")" + name +
         R"(","resourceVersion":")" + std::to_string(version) + R"("},"spec":")" +
         std::string(kMaxWatchLine, '<') + "\"}}\n";
}

TEST_F(WatchLoopTest, OneObjectThatIsTooLongIsNamedAndStopsNobody) {
  Follow();
  const std::string bytes =
      Modified("a", 8) + Huge("ADDED", "big", 9) + Modified("b", 10) + Huge("DELETED", "b", 11);
  for (size_t at = 0; at < bytes.size(); at += 10'000) {
    ASSERT_TRUE(Data(bytes.substr(at, 10'000)));
  }
  EXPECT_THAT(told_, ElementsAre("+8 a@8", "+10 !big@9 b@10", "+11 !-b@11"));
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_THAT(unreadable_, ElementsAre("big", "b"));
  End();
  EXPECT_THAT(Accept(), HasSubstr("resourceVersion=11&"));
}

TEST_F(WatchLoopTest, ATooLongLineMayEndInAnyPiece) {
  const std::string bytes = Added("a", 2) + Huge("ADDED", "big", 3) + Added("b", 5) + EndOfState(7);
  for (const size_t piece : {bytes.size(), size_t{999'983}}) {
    told_.clear();
    Accept();
    for (size_t at = 0; at < bytes.size(); at += piece) ASSERT_TRUE(Data(bytes.substr(at, piece)));
    EXPECT_THAT(told_, ElementsAre("=7 a@2 !big@3 b@5"));
    now_ += seconds(20);
    Data(Bookmark(8));
    End();
    Next();
    loop_.OnHead(Answer(410), now_);
  }
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(WatchLoopTest, AnEventThatCannotBeReadIsNamedAndStopsNobody) {
  Follow();
  const std::string broken =
      R"({"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"8","uid":"\ud800"}}})";
  EXPECT_TRUE(Data(broken + "\n" + Modified("b", 9)));
  EXPECT_THAT(told_, ElementsAre("+9 !a@8 b@9"));
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(WatchLoopTest, APageWithAnObjectThatCannotBeReadIsTaken) {
  NextPath(Kind::kStream);
  loop_.OnHead(Answer(400), now_);
  NextPath(Kind::kPage);
  const std::string broken = R"({"metadata":{"name":"bad","resourceVersion":"3","uid":"\ud800"}})";
  const std::string good = R"({"metadata":{"name":"a","resourceVersion":"2"}})";
  loop_.OnPage(
      Answer(200, R"({"metadata":{"resourceVersion":"9"},"items":[)" + broken + "," + good + "]}"),
      now_);
  EXPECT_THAT(told_, ElementsAre("=9 a@2 !bad@3"));
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(WatchLoopTest, P11_AVersionThatIsGoneBringsTheWholeStateAgainAtOnce) {
  Follow();
  End();
  Next();
  EXPECT_FALSE(loop_.OnHead(
      Answer(410, StatusObject(410, "Expired", "too old resource version").dump()), now_));
  EXPECT_THAT(Accept(), HasSubstr("sendInitialEvents=true"));
  EXPECT_EQ(waited_, Duration(0));
  Data(Added("c", 20) + EndOfState(20));
  EXPECT_THAT(told_, ElementsAre("=20 c@20"));
}

TEST_F(WatchLoopTest, P11_GoneWithinTheStreamIsTheSameAndWhatCameBeforeItCounts) {
  Follow();
  EXPECT_FALSE(Data(Modified("a", 8) + Event("ERROR", StatusObject(410, "Expired", "too old"))));
  EXPECT_THAT(told_, ElementsAre("+8 a@8"));
  EXPECT_THAT(Accept(), HasSubstr("sendInitialEvents=true"));
  EXPECT_EQ(waited_, Duration(0));
}

TEST_F(WatchLoopTest, P11_GoneAgainAndAgainIsLeftToTheBackoff) {
  Follow();
  End();
  std::vector<Duration> waits;
  for (int i = 0; i < 12; ++i) {
    Next();
    waits.push_back(waited_);
    loop_.OnHead(Answer(410), now_);
  }
  EXPECT_EQ(waits[1], Duration(0));
  EXPECT_GE(waits[2], milliseconds(800));
  EXPECT_GE(waits[11], seconds(30));
  EXPECT_LE(waits[11], seconds(60));
}

TEST_F(WatchLoopTest, P11_AContinueTokenThatExpiredStartsTheListOver) {
  NextPath(Kind::kStream);
  loop_.OnHead(Answer(400), now_);
  EXPECT_EQ(NextPath(Kind::kPage), "/api/v1/pods?labelSelector=x&limit=500");
  loop_.OnPage(Answer(200, Page({Pod("old", 1)}, 5, "token/+=")), now_);
  EXPECT_THAT(NextPath(Kind::kPage), HasSubstr("limit=500&continue=token%2F%2B%3D"));
  loop_.OnPage(Answer(410, StatusObject(410, "Expired", "token").dump()), now_);
  EXPECT_THAT(NextPath(Kind::kPage), Not(HasSubstr("continue")));
  EXPECT_EQ(waited_, Duration(0));
  loop_.OnPage(Answer(200, Page({Pod("a", 2)}, 9)), now_);
  EXPECT_THAT(told_, ElementsAre("=9 a@2"));
}

TEST_F(WatchLoopTest, P11_AServerThatWentBackInTimeIsReadAnew) {
  for (const std::string& sign : {Bookmark(3), Modified("a", 3)}) {
    told_.clear();
    Follow();
    EXPECT_FALSE(Data(Modified("b", 8) + sign));
    EXPECT_THAT(told_, IsEmpty()) << "what came before belongs to a state that is no more";
    EXPECT_THAT(Accept(), HasSubstr("sendInitialEvents=true"));
    Data(Added("a", 3) + EndOfState(4));
    EXPECT_THAT(told_, ElementsAre("=4 a@3"));
    now_ += seconds(20);
    Data(Bookmark(5));
    End();
    Next();
    loop_.OnHead(Answer(410), now_);
  }
}

TEST_F(WatchLoopTest, P11_AVersionOfTheFutureIsReadAnew) {
  Follow();
  End();
  Next();
  loop_.OnHead(
      Answer(504, StatusObject(504, "Timeout", "Too large resource version: 7, current: 3").dump()),
      now_);
  EXPECT_THAT(Accept(), HasSubstr("sendInitialEvents=true"));
}

TEST_F(WatchLoopTest, P12_BookmarksAloneKeepTheStreamAndAdvanceTheVersion) {
  Follow();
  for (int minute = 1; minute <= 60; ++minute) {
    now_ += minutes(1);
    ASSERT_LT(now_, loop_.deadline());
    ASSERT_TRUE(Data(Bookmark(100 + minute)));
  }
  End();
  EXPECT_THAT(Accept(), HasSubstr("resourceVersion=160&"));
  EXPECT_EQ(told_.size(), 60U);
}

TEST_F(WatchLoopTest, P12_WithoutBookmarksTheLastEventIsWhereItGoesOn) {
  Follow();
  Data(Modified("a", 8));
  Silence();
  EXPECT_THAT(Accept(), HasSubstr("resourceVersion=8&"));
}

TEST_F(WatchLoopTest, P13_AServerThatRefusesWatchListsIsListedInPages) {
  for (int refusal : {400, 422}) {
    SCOPED_TRACE(refusal);
    NextPath(Kind::kStream);
    EXPECT_FALSE(loop_.OnHead(Answer(refusal), now_));
    EXPECT_THAT(NextPath(Kind::kPage), Not(HasSubstr("resourceVersion")));
    loop_.OnPage(Answer(200, Page({Pod("a", 2)}, 9, "more")), now_);
    NextPath(Kind::kPage);
    loop_.OnPage(Answer(200, Page({Pod("b", 4)}, 9)), now_);
    EXPECT_EQ(told_.back(), "=9 a@2 b@4");
    EXPECT_THAT(Accept(), HasSubstr("resourceVersion=9&"));
    loop_.OnData(Event("ERROR", StatusObject(410, "Expired", "")), now_ += seconds(20));
  }
  EXPECT_THAT(problems_, IsEmpty());
}

TEST_F(WatchLoopTest, P13_AServerThatIgnoresTheParameterAndFallsSilentIsListed) {
  Accept();
  Data(Added("a", 2) + Bookmark(5));
  EXPECT_EQ(loop_.deadline(), now_ + seconds(10));
  Silence();
  NextPath(Kind::kPage);
  loop_.OnPage(Answer(200, Page({Pod("a", 2)}, 9)), now_);
  EXPECT_THAT(told_, ElementsAre("=9 a@2"));
}

TEST_F(WatchLoopTest, P13_AServerThatIgnoresTheParameterAndIsBusyIsListedAfterAMinute) {
  Accept();
  for (int i = 0; i < 70 && now_ < loop_.deadline(); ++i) {
    Data(Modified("a", 10 + i));
    now_ += seconds(1);
  }
  Silence();
  NextPath(Kind::kPage);
}

TEST_F(WatchLoopTest, P15_TooManyRequestsWaitsAsLongAsTheServerSays) {
  Follow();
  End();
  Next();
  Response busy = Answer(429);
  busy.retry_after = seconds(17);
  loop_.OnHead(busy, now_);
  EXPECT_THAT(Accept(), HasSubstr("resourceVersion=7&"));
  EXPECT_EQ(waited_, seconds(17));
}

TEST_F(WatchLoopTest, P15_GarbageWithAGoodStatusIsAProblemAndNotBelieved) {
  Follow();
  EXPECT_FALSE(Data("<html>\n"));
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_THAT(problems_[0].message, HasSubstr("following /api/v1/pods: the API server sent"));
  EXPECT_THAT(Accept(), HasSubstr("resourceVersion=7&"));
  EXPECT_GE(waited_, milliseconds(800));
}

TEST_F(WatchLoopTest, P18_AnEventThatComesTwiceIsHandedOnAsItIs) {
  Follow();
  EXPECT_TRUE(Data(Modified("a", 8) + Modified("a", 8)));
  EXPECT_THAT(told_, ElementsAre("+8 a@8 a@8"));
}

TEST_F(WatchLoopTest, P19_AServerThatIsGoneIsTriedAgainWithABackoffThatHealthEnds) {
  Follow();
  End(Error::Unavailable("reset"));
  std::vector<Duration> waits;
  for (int i = 0; i < 8; ++i) {
    Next();
    waits.push_back(waited_);
    End(Error::Unavailable("refused"));
  }
  EXPECT_GE(waits[1], milliseconds(800));
  EXPECT_LE(waits[1], milliseconds(1600));
  EXPECT_GE(waits[7], seconds(30));
  EXPECT_LE(waits[7], seconds(60));
  EXPECT_EQ(problems_.size(), 8U);
  Accept();
  now_ += seconds(10);
  Data(Bookmark(9));
  End();
  Next();
  End(Error::Unavailable("refused"));
  Next();
  EXPECT_LE(waited_, milliseconds(1600));
}

TEST_F(WatchLoopTest, AWatchThatEndsAtOnceWithoutAnEventIsAFailure) {
  Follow();
  End();
  Accept();
  End();
  Accept();
  EXPECT_GE(waited_, milliseconds(800));
}

TEST_F(WatchLoopTest, AMissingPermissionOrTypeIsSaidAndTriedAgain) {
  NextPath(Kind::kStream);
  loop_.OnHead(Answer(403, StatusObject(403, "Forbidden", "cannot list pods").dump()), now_);
  NextPath(Kind::kStream);
  loop_.OnHead(Answer(404, "404 page not found"), now_);
  ASSERT_EQ(problems_.size(), 2U);
  EXPECT_EQ(problems_[0].kind, ErrorKind::kDenied);
  EXPECT_THAT(problems_[0].message, HasSubstr("reading /api/v1/pods: cannot list pods"));
  EXPECT_EQ(problems_[1].kind, ErrorKind::kNotFound);
  Accept();
  Data(EndOfState(3));
  EXPECT_THAT(told_, ElementsAre("=3"));
}

TEST_F(WatchLoopTest, ATypeThatWentAndCameAgainBringsTheWholeState) {
  Follow();
  End();
  Next();
  EXPECT_FALSE(loop_.OnHead(Answer(404, "404 page not found"), now_));
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_EQ(problems_[0].kind, ErrorKind::kNotFound);
  EXPECT_THAT(Accept(), HasSubstr("sendInitialEvents=true"));
  EXPECT_GT(waited_, Duration(0));
  Data(EndOfState(20));
  EXPECT_THAT(told_, ElementsAre("=20"));
}

TEST_F(WatchLoopTest, PagesThatAreTooLargeAreAskedForInSmallerOnes) {
  NextPath(Kind::kStream);
  loop_.OnHead(Answer(400), now_);
  NextPath(Kind::kPage);
  loop_.OnPage(Error::TooLarge("over 32 MiB"), now_);
  EXPECT_THAT(NextPath(Kind::kPage), HasSubstr("limit=125"));
}

}  // namespace
}  // namespace lockstep::kube::watch_loop_test
