#include "cli/ui/page_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <memory>

#include "base/text/json.h"
#include "tests/base/loop_test_base.h"
#include "tests/base/shell.h"

namespace lockstep::cli::page_server_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

using Headers = std::vector<std::pair<std::string, std::string>>;

HttpRequest Request(std::string path, Headers headers) {
  HttpRequest request;
  request.method = "GET";
  request.path = std::move(path);
  request.headers = std::move(headers);
  return request;
}

int Rule(std::string path, Headers headers) {
  return RefusalOf(Request(std::move(path), std::move(headers))).status;
}

TEST(RefusalTest, OnlyTheNamesOfThisComputerAreTakenAsHostWithAnyPort) {
  for (const char* host :
       {"127.0.0.1:8080", "localhost:9", "LOCALHOST", "[::1]:8080", "[::1]", "127.0.0.1"}) {
    EXPECT_EQ(Rule("/api/view", {{"host", host}}), 0) << host;
  }
  for (const char* host :
       {"evil.test", "evil.test:8080", "127.0.0.1.evil.test", "localhost.evil.test:1", "[::1", "",
        "127.0.0.1:8080@evil.test", "localhost:", "localhost:8x", "[::1]x", ":80", "[::2]"}) {
    EXPECT_EQ(Rule("/api/view", {{"host", host}}), 421) << host;
    EXPECT_EQ(Rule("/", {{"host", host}}), 421) << host;
  }
  EXPECT_EQ(Rule("/", {}), 421);
  EXPECT_EQ(Rule("/", {{"host", "localhost"}, {"host", "evil.test"}}), 421);
}

TEST(RefusalTest, APageOfAnotherOriginIsRefused) {
  const auto with = [](const char* name, const char* value) {
    return Rule("/api/view", {{"host", "localhost:80"}, {name, value}});
  };
  EXPECT_EQ(with("origin", "http://localhost:80"), 0);
  EXPECT_EQ(with("origin", "http://localhost:81"), 403);
  EXPECT_EQ(with("origin", "http://evil.test"), 403);
  EXPECT_EQ(with("origin", "null"), 403);
  EXPECT_EQ(with("sec-fetch-site", "same-origin"), 0);
  EXPECT_EQ(with("sec-fetch-site", "none"), 0);
  EXPECT_EQ(with("sec-fetch-site", "same-site"), 403);
  EXPECT_EQ(with("sec-fetch-site", "cross-site"), 403);
}

TEST(RefusalTest, ALinkToThePageMayBeFollowedButNoFrameShowsIt) {
  const auto from = [](const char* path, const char* mode, const char* into) {
    return Rule(path, {{"host", "localhost:80"},
                       {"sec-fetch-site", "cross-site"},
                       {"sec-fetch-mode", mode},
                       {"sec-fetch-dest", into}});
  };
  EXPECT_EQ(from("/", "navigate", "document"), 0);
  EXPECT_EQ(from("/", "navigate", "iframe"), 403);
  EXPECT_EQ(from("/", "no-cors", "image"), 403);
  EXPECT_EQ(from("/api/view", "navigate", "document"), 403);
}

TEST(RefusalTest, APublicServerAnswersToItsNamesAlone) {
  const std::vector<std::string> hosts = {"lockstep.example.com", "lockstep"};
  const auto rule = [&](const char* host, const char* origin) {
    return RefusalOf(Request("/api/view", {{"host", host}, {"origin", origin}}), hosts).status;
  };
  EXPECT_EQ(rule("lockstep.example.com", "https://lockstep.example.com"), 0);
  EXPECT_EQ(rule("Lockstep:8080", "http://Lockstep:8080"), 0);
  EXPECT_EQ(rule("lockstep.example.com", "https://evil.test"), 403);
  EXPECT_EQ(rule("lockstep", "https://lockstep.example.com"), 403);
  for (const char* host : {"127.0.0.1", "localhost", "evil.test", "lockstep.example.com.evil.test",
                           "", "10.0.0.7:8080"}) {
    EXPECT_EQ(rule(host, "null"), 421) << host;
  }
}

class PageServerTest : public LoopTest {
 protected:
  PageServerTest() : html_(Compress("<html>page")) {
    PageServer::Handlers handlers;
    handlers.version = [this] { return version_; };
    handlers.view = [this](uint64_t after) {
      return view_.empty() ? "{\"after\":" + std::to_string(after) + "}" : view_;
    };
    handlers.log = [](std::optional<uint32_t> rank, uint64_t after,
                      const PageServer::Answer& answer) {
      if (rank == 9) return answer(Error::NotFound("there is no rank 9"));
      answer("{\"rank\":" + (rank ? std::to_string(*rank) : "null") +
             ",\"after\":" + std::to_string(after) + "}");
    };
    handlers.stacks = [](std::optional<uint32_t>, const PageServer::Answer& answer) {
      answer(Error::Unavailable("the run has ended"));
    };
    server_ = std::make_unique<PageServer>(loop(), PageFile{html_, "default-src 'none'"},
                                           std::move(handlers));
    EXPECT_TRUE(server_->Listen(0).ok());
  }

  // A request on a connection of its own, as a browser sends it.
  std::unique_ptr<Output> Open(const std::string& text) {
    const Result<Endpoint> to = MakeEndpoint("127.0.0.1", server_->port());
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, to->get(), to->size), 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    EXPECT_EQ(send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    return std::make_unique<Output>(loop(), UniqueFd(fd));
  }
  std::string Authorization() { return "Authorization: Bearer " + server_->token() + "\r\n"; }
  static std::string Line(const std::string& path, const std::string& method = "GET") {
    return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1:1\r\nConnection: close\r\n";
  }
  std::string Ask(const std::string& text) {
    const std::unique_ptr<Output> answer = Open(text + "\r\n");
    EXPECT_TRUE(RunUntil([&] { return answer->ended(); }));
    return answer->text();
  }
  std::string AskWithToken(const std::string& path) { return Ask(Line(path) + Authorization()); }

  std::string html_;
  std::string view_;
  uint64_t version_ = 5;
  std::unique_ptr<PageServer> server_;
};

TEST_F(PageServerTest, TheAddressHasATokenOf192BitsInItsFragment) {
  EXPECT_THAT(server_->address(), MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/#[A-Za-z0-9_-]{32}"));
  EXPECT_THAT(server_->address(), EndsWith(server_->token()));
  const PageServer other(loop(), PageFile{html_, ""}, PageServer::Handlers{});
  EXPECT_NE(other.token(), server_->token());
}

TEST_F(PageServerTest, ThePageNeedsNoTokenAndCarriesItsPolicy) {
  const std::string answer = Ask(Line("/"));
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'none'\r\n"));
  EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(answer, HasSubstr("Referrer-Policy: no-referrer\r\n"));
  EXPECT_THAT(answer, HasSubstr("Cache-Control: no-store\r\n"));
  EXPECT_THAT(answer, EndsWith("<html>page"));
  const std::string packed = Ask(Line("/") + "Accept-Encoding: gzip, br\r\n");
  EXPECT_THAT(packed, HasSubstr("Content-Encoding: gzip\r\n"));
  EXPECT_THAT(packed, EndsWith(html_));
}

TEST_F(PageServerTest, DataNeedsTheTokenInTheHeader) {
  for (const char* path : {"/api/view", "/api/log", "/api/stacks", "/api/topology", "/other"}) {
    EXPECT_THAT(Ask(Line(path)), StartsWith("HTTP/1.1 401 Unauthorized\r\n")) << path;
    EXPECT_THAT(Ask(Line(path + std::string("?token=") + server_->token())), HasSubstr(" 401 "));
  }
  std::string wrong = server_->token();
  wrong.back() = wrong.back() == 'A' ? 'B' : 'A';
  for (const std::string& value :
       {wrong, server_->token().substr(1), server_->token() + "A", std::string()}) {
    EXPECT_THAT(Ask(Line("/api/view") + "Authorization: Bearer " + value + "\r\n"),
                HasSubstr(" 401 "));
  }
  EXPECT_THAT(Ask(Line("/api/view") + "Authorization: " + server_->token() + "\r\n"),
              HasSubstr(" 401 "));
  const std::string answer = AskWithToken("/api/view?after=4");
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(answer, HasSubstr("Content-Type: application/json\r\n"));
  EXPECT_THAT(answer, Not(HasSubstr("Access-Control")));
  EXPECT_THAT(answer, EndsWith("{\"after\":4}"));
}

TEST_F(PageServerTest, ARebornNameIsRefusedWithTheTokenToo) {
  EXPECT_THAT(
      Ask("GET /api/view HTTP/1.1\r\nHost: evil.test\r\nConnection: close\r\n" + Authorization()),
      StartsWith("HTTP/1.1 421 Misdirected Request\r\n"));
}

TEST_F(PageServerTest, NothingButGetAndHeadIsTaken) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string answer = Ask(Line("/api/view", method) + Authorization());
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(answer, HasSubstr("Allow: GET, HEAD\r\n"));
  }
  EXPECT_THAT(Ask(Line("/", "HEAD")), EndsWith("\r\n\r\n"));
}

TEST_F(PageServerTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(AskWithToken("/api/view?after=x"), HasSubstr(" 400 "));
  EXPECT_THAT(AskWithToken("/api/view?after=-1"), HasSubstr(" 400 "));
  EXPECT_THAT(AskWithToken("/api/view?after=99999999999999999999"), HasSubstr(" 400 "));
  EXPECT_THAT(AskWithToken("/api/view?id=a/b"), HasSubstr(" 400 "));
  EXPECT_THAT(AskWithToken("/api/log?rank=x"),
              EndsWith("{\"error\":\"rank must be a whole number\"}"));
  EXPECT_THAT(AskWithToken("/api/log?rank=9"), HasSubstr(" 404 "));
  EXPECT_THAT(AskWithToken("/api/stacks"), EndsWith("{\"error\":\"the run has ended\"}"));
  EXPECT_THAT(AskWithToken("/api/stacks"), HasSubstr(" 503 "));
  EXPECT_THAT(AskWithToken("/api/topology"), HasSubstr(" 404 "));  // no handler
  EXPECT_THAT(AskWithToken("/etc/passwd"), HasSubstr(" 404 "));
}

TEST_F(PageServerTest, LogsAreAskedForByRankAndLine) {
  EXPECT_THAT(AskWithToken("/api/log?rank=3&after=17"), EndsWith("{\"rank\":3,\"after\":17}"));
  EXPECT_THAT(AskWithToken("/api/log"), EndsWith("{\"rank\":null,\"after\":0}"));
}

TEST_F(PageServerTest, APageThatHasTheVersionWaitsForTheNext) {
  const auto waiting = Open(Line("/api/view?after=5&id=a") + Authorization() + "\r\n");
  const auto other = Open(Line("/api/view?after=5&id=b") + Authorization() + "\r\n");
  server_->Notify();
  Settle();
  Settle();
  EXPECT_EQ(waiting->text(), "");
  ++version_;
  server_->Notify();
  ASSERT_TRUE(RunUntil([&] { return waiting->ended() && other->ended(); }));
  EXPECT_THAT(waiting->text(), EndsWith("{\"after\":5}"));
}

TEST_F(PageServerTest, APageIsOwedTheVersionThatItHasNotSeen) {
  EXPECT_FALSE(server_->Owes());
  AskWithToken("/api/view?id=a");
  EXPECT_FALSE(server_->Owes());
  ++version_;
  EXPECT_TRUE(server_->Owes());
  AskWithToken("/api/view?after=5&id=other");
  EXPECT_TRUE(server_->Owes());
  AskWithToken("/api/view?after=5&id=a");
  EXPECT_FALSE(server_->Owes());
}

TEST_F(PageServerTest, ABrowserThatDiesWhileItWaitsIsForgotten) {
  auto waiting = Open(Line("/api/view?after=5&id=a") + Authorization() + "\r\n");
  Settle();
  waiting.reset();
  ++version_;
  server_->Notify();
  Settle();
  EXPECT_THAT(AskWithToken("/api/view"), HasSubstr(" 200 "));
}

// One that others judge: "good" is Ann's token, "late" is not judged until `verdict_` is called.
class PublicPageTest : public PageServerTest {
 protected:
  PublicPageTest() {
    PageServer::Handlers handlers;
    handlers.version = [this] { return version_; };
    handlers.view = [](uint64_t) { return R"({"of":"Ann"})"; };
    ann_ = std::move(handlers);
    server_ = std::make_unique<PageServer>(
        loop(), PageFile{html_, "default-src 'none'"},
        PageServer::Public{.hosts = {"127.0.0.1"},
                           .judge =
                               [this](const std::string& token, const std::string& source,
                                      const PageServer::Answer& done) {
                                 source_ = source;
                                 if (token == "good") return done(std::string("Ann"));
                                 if (token == "late") return void(verdict_ = done);
                                 if (token == "down") return done(Error::Unavailable("no answer"));
                                 done(Error::Denied("who is that?"));
                               },
                           .forwarded = true},
        [this](const PageServer::Subject& subject) -> Result<const PageServer::Handlers*> {
          asked_ = subject;
          visits_ += "alq"[static_cast<size_t>(subject.visit)];
          if (subject.job == "full") return Error::Unavailable("close another tab");
          return subject.viewer == "Ann" && subject.job != "gone" ? &ann_ : nullptr;
        });
    EXPECT_TRUE(server_->Listen(0).ok());
  }
  static std::string With(const std::string& token, const std::string& path = "/api/view") {
    return Line(path) + "Authorization: Bearer " + token + "\r\n";
  }

  PageServer::Handlers ann_;
  PageServer::Subject asked_;
  std::string visits_;  // ask, look, quit
  std::string source_;
  PageServer::Answer verdict_;
};

TEST_F(PublicPageTest, EachRequestIsOfTheViewerWhoseTokenItHas) {
  EXPECT_THAT(Ask(With("good", "/api/view?job=a/b&namespace=a")), EndsWith(R"({"of":"Ann"})"));
  EXPECT_EQ(asked_.viewer + " " + asked_.name_space + " " + asked_.job, "Ann a a/b");
  EXPECT_THAT(Ask(With("good", "/api/view?job=gone")), HasSubstr(" 404 "));
}

TEST_F(PublicPageTest, TheSourceOfATokenIsTheLastAddressThatAProxyWrote) {
  const auto source_of = [&](const std::string& addresses) {
    source_ = "?";
    Ask(With("bad") + "X-Forwarded-For: " + addresses + "\r\n");
    return source_;
  };
  EXPECT_EQ(source_of("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(source_of("6.6.6.6, 10.0.0.1:4711"), "10.0.0.1");
  EXPECT_EQ(source_of("6.6.6.6\r\nX-Forwarded-For: 10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(source_of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
  EXPECT_EQ(source_of("[2001:db8:1:2:3:4:5:7]:4711"), "2001:db8:1:2::");
  EXPECT_EQ(source_of("::ffff:10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(source_of("64:ff9b::10.0.0.2"), "10.0.0.2");
  EXPECT_EQ(source_of("10.0.0.1, somebody"), "");
  EXPECT_EQ(source_of("["), "");
  source_ = "?";
  Ask(With("bad"));
  EXPECT_EQ(source_, "");
}

TEST_F(PublicPageTest, WithoutATokenThatCountsThePageMayAskForOne) {
  for (const std::string& request :
       {Line("/api/view"), With("bad"), With("good;x"), With("\xc3\xa9"), With("")}) {
    EXPECT_THAT(Ask(request), testing::AllOf(StartsWith("HTTP/1.1 401 Unauthorized\r\n"),
                                             HasSubstr("WWW-Authenticate: Bearer\r\n"),
                                             EndsWith("\"login\":true}")));
  }
  EXPECT_THAT(Ask(With("bad")), HasSubstr("who is that?"));
  EXPECT_THAT(Ask(With("down")), testing::AllOf(HasSubstr(" 503 "), Not(HasSubstr("login"))));
  EXPECT_THAT(Ask(With(server_->token())), HasSubstr(" 401 "));
}

TEST_F(PublicPageTest, ALateJudgementAnswersARequestThatStillWaits) {
  const auto waiting = Open(With("late") + "\r\n");
  ASSERT_TRUE(RunUntil([&] { return verdict_ != nullptr; }));
  EXPECT_EQ(waiting->text(), "");
  verdict_(std::string("Ann"));
  ASSERT_TRUE(RunUntil([&] { return waiting->ended(); }));
  EXPECT_THAT(waiting->text(), EndsWith(R"({"of":"Ann"})"));
}

TEST_F(PublicPageTest, AJudgementAfterTheServersEndIsNothing) {
  const auto waiting = Open(With("late") + "\r\n");
  ASSERT_TRUE(RunUntil([&] { return verdict_ != nullptr; }));
  server_.reset();
  verdict_(std::string("Ann"));
  EXPECT_EQ(waiting->text(), "");
}

TEST_F(PublicPageTest, APageWaitsWhileItsViewIsNotKnown) {
  const auto waiting = Open(With("good", "/api/view?after=5") + "\r\n");
  ASSERT_TRUE(RunUntil([&] { return asked_.viewer == "Ann"; }));
  ann_.version = [] { return uint64_t{0}; };
  server_->Notify();
  Settle();
  EXPECT_EQ(waiting->text(), "");
}

TEST_F(PublicPageTest, APageForWhichThereIsNoPlaceIsA503ThatSaysWhatToDo) {
  EXPECT_THAT(Ask(With("good", "/api/view?job=full")),
              testing::AllOf(HasSubstr(" 503 "), EndsWith(R"({"error":"close another tab"})")));
}

TEST_F(PublicPageTest, AChangeLooksAtWhatIsOpenAndAsksForNothing) {
  const auto waiting = Open(With("good", "/api/view?after=5") + "\r\n");
  ASSERT_TRUE(RunUntil([&] { return visits_ == "a"; }));
  server_->Notify();
  Settle();
  EXPECT_EQ(visits_, "al");
  ++version_;
  server_->Notify();
  ASSERT_TRUE(RunUntil([&] { return waiting->ended(); }));
  EXPECT_EQ(visits_, "alll");
}

TEST_F(PublicPageTest, ABrowserThatHangsUpLeavesItsPageUnlessAnotherOneShowsIt) {
  auto first = Open(With("good", "/api/view?after=5&id=a") + "\r\n");
  auto second = Open(With("good", "/api/view?after=5&id=b") + "\r\n");
  ASSERT_TRUE(RunUntil([&] { return visits_ == "aa"; }));
  for (auto* each : {&first, &second}) {
    each->reset();
    Settle();
    server_->Notify();
    Settle();
  }
  EXPECT_EQ(visits_, "aalq");
}

TEST_F(PublicPageTest, TheOldestOfTooManyPollsGetsWhatStands) {
  std::vector<std::unique_ptr<Output>> polls;
  for (int64_t i = 0; i <= int64_t{PageServer::kMostPolls}; ++i) {
    polls.push_back(Open(With("good", "/api/view?after=5") + "\r\n"));
    ASSERT_TRUE(RunUntil([&] { return std::ranges::count(visits_, 'a') == i + 1; }));
  }
  ASSERT_TRUE(RunUntil([&] { return polls.front()->ended(); }));
  EXPECT_THAT(polls.front()->text(), EndsWith(R"({"of":"Ann"})"));
  Settle();
  EXPECT_EQ(polls[1]->text(), "");
}

TEST_F(PublicPageTest, APortAloneIsThatOfIpv4AndIpv6) {
  ASSERT_TRUE(server_->Listen("0").ok());
  EXPECT_THAT(Ask(With("good")), EndsWith(R"({"of":"Ann"})"));
  EXPECT_EQ(server_->Listen("nowhere").error().kind, ErrorKind::kInvalid);
}

TEST_F(PageServerTest, ALargeViewIsCompressedAndOneThatCannotBeSentIsAnError) {
  view_ = "\"" + std::string((size_t{2} << 20) + 1, 'x') + "\"";
  EXPECT_THAT(AskWithToken("/api/view"), HasSubstr("Content-Encoding: gzip\r\n"));
  uint64_t state = 1;
  for (char& c : view_) {  // what does not compress
    state = state * 6364136223846793005U + 1442695040888963407U;
    c = static_cast<char>(state >> 56U);
  }
  EXPECT_THAT(AskWithToken("/api/view"), HasSubstr(" 503 "));
}

TEST_F(PageServerTest, APageOfOneRunHasNoOtherJobs) {
  EXPECT_THAT(AskWithToken("/api/view?job=team-a/gpt"), HasSubstr(" 404 "));
}

TEST_F(PageServerTest, ARequestIsAnsweredByTheJobThatItNamesOnceSomethingIsKnown) {
  uint64_t version = 0;
  PageServer::Handlers job;
  job.version = [&version] { return version; };
  job.view = [](uint64_t) { return "{\"job\":\"gpt\"}"; };
  server_ = std::make_unique<PageServer>(loop(), PageFile{html_, "default-src 'none'"},
                                         [&job](const PageServer::Subject& subject) {
                                           return subject.job == "team-a/gpt" ? &job : nullptr;
                                         });
  ASSERT_TRUE(server_->Listen(0).ok());
  EXPECT_THAT(AskWithToken("/api/view"), HasSubstr(" 404 "));
  EXPECT_THAT(AskWithToken("/api/view?job=team-b%2Fgpt"), HasSubstr(" 404 "));
  const auto answer = Open(Line("/api/view?job=team-a%2Fgpt") + Authorization() + "\r\n");
  Settle();
  EXPECT_FALSE(answer->ended());
  version = 1;
  server_->Notify();
  EXPECT_TRUE(RunUntil([&] { return answer->ended(); }));
  EXPECT_THAT(answer->text(), HasSubstr("{\"job\":\"gpt\"}"));
}

TEST_F(PageServerTest, APortThatIsTakenIsAnErrorThatNamesIt) {
  PageServer second(loop(), PageFile{html_, ""}, PageServer::Handlers{});
  const Status status = second.Listen(server_->port());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kConflict);
  EXPECT_THAT(status.error().message, HasSubstr(std::to_string(server_->port())));
}

TEST(PageFileTest, WhatIsCompressedIsTheSameAgainAndNothingElseIsTaken) {
  const std::string text(300'000, 'a');
  EXPECT_EQ(*Decompress(Compress(text)), text);
  EXPECT_EQ(*Decompress(Compress("")), "");
  EXPECT_FALSE(Decompress("no gzip").ok());
  EXPECT_FALSE(Decompress(Compress(text).substr(0, 20)).ok());
}

TEST(PageFileTest, ASavedViewCannotLeaveItsElement) {
  const std::string page = R"(<a><script type="application/json" id="saved"></script><b>)";
  const std::string view = R"({"m":"</script><script>alert(1)</script><!--"})";
  const std::string saved = *SavedPage(page, view);
  EXPECT_THAT(saved, StartsWith(R"(<a><script type="application/json" id="saved">{"m":")"));
  EXPECT_THAT(saved, EndsWith(R"(--"}</script><b>)"));
  EXPECT_THAT(saved, Not(HasSubstr("</script><script>")));
  EXPECT_THAT(saved, Not(HasSubstr("<!--")));
  const size_t from = saved.find('{');
  EXPECT_EQ(Json::parse(saved.substr(from, saved.rfind("</script>") - from)), Json::parse(view));
  EXPECT_FALSE(SavedPage("<a>", view).ok());
}

}  // namespace
}  // namespace lockstep::cli::page_server_test
