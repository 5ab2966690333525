#include "base/http/http_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
namespace {

using State = HttpParser::State;

int StatusOf(const std::string& bytes) {
  HttpParser parser;
  parser.Feed(bytes);
  return parser.Parse() == State::kError ? parser.error_status() : 0;
}

TEST(HttpParser, ReadsARequestWhicheverWayItIsCut) {
  const std::string bytes =
      "PUT /gang%20x?after=7&name=a%2Bb&flag HTTP/1.1\r\nHost: m\r\nContent-Length:  4 "
      "\r\n\r\nbody";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    HttpParser parser;
    State state = State::kNeedMore;
    for (size_t at = 0; at < bytes.size(); at += step) {
      ASSERT_EQ(state, State::kNeedMore);
      parser.Feed(bytes.substr(at, step));
      state = parser.Parse();
    }
    ASSERT_EQ(state, State::kRequest) << step;
    const HttpRequest request = parser.TakeRequest();
    EXPECT_EQ(request.method, "PUT");
    EXPECT_EQ(request.path, "/gang x");
    EXPECT_EQ(*request.Query("after"), "7");
    EXPECT_EQ(*request.Query("name"), "a+b");
    EXPECT_EQ(*request.Query("flag"), "");
    EXPECT_EQ(request.Query("none"), nullptr);
    EXPECT_EQ(*request.Header("host"), "m");
    EXPECT_EQ(request.body, "body");
    EXPECT_TRUE(request.keep_alive);
    EXPECT_TRUE(parser.idle());
  }
}

TEST(HttpParser, KeepsWhatFollowsForTheNextRequest) {
  HttpParser parser;
  parser.Feed("GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.0\r\n\r\n");
  ASSERT_EQ(parser.Parse(), State::kRequest);
  EXPECT_EQ(parser.TakeRequest().path, "/a");
  ASSERT_EQ(parser.Parse(), State::kRequest);
  const HttpRequest second = parser.TakeRequest();
  EXPECT_EQ(second.path, "/b");
  EXPECT_FALSE(second.keep_alive);
  EXPECT_EQ(parser.Parse(), State::kNeedMore);
}

TEST(HttpParser, HonoursTheConnectionHeader) {
  HttpParser parser;
  parser.Feed(
      "GET / HTTP/1.1\r\nConnection: Close\r\n\r\nGET / HTTP/1.0\r\nConnection: "
      "Keep-Alive\r\n\r\n");
  ASSERT_EQ(parser.Parse(), State::kRequest);
  EXPECT_FALSE(parser.TakeRequest().keep_alive);
  ASSERT_EQ(parser.Parse(), State::kRequest);
  EXPECT_TRUE(parser.TakeRequest().keep_alive);
}

TEST(HttpParser, TakesTheCookiesOfABrowser) {
  HttpParser parser;
  const std::string cookies(size_t{48} << 10, 'x');
  parser.Feed("GET / HTTP/1.1\r\nCookie: " + cookies + "\r\n\r\n");
  ASSERT_EQ(parser.Parse(), State::kRequest);
  EXPECT_EQ(*parser.TakeRequest().Header("cookie"), cookies);
}

TEST(HttpParser, RefusesWhatIsTooLargeBeforeItHasCome) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nX: " + std::string(66000, 'x')), 431);
  EXPECT_EQ(StatusOf("PUT / HTTP/1.1\r\nContent-Length: 65537\r\n\r\n"), 413);
  EXPECT_EQ(StatusOf("PUT / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"), 413);
  HttpParser larger(100000);
  larger.Feed("PUT / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n");
  EXPECT_EQ(larger.Parse(), State::kNeedMore);
  HttpParser too_large(100000);
  too_large.Feed("PUT / HTTP/1.1\r\nContent-Length: 100001\r\n\r\n");
  EXPECT_EQ(too_large.Parse(), State::kError);
  EXPECT_EQ(too_large.error_status(), 413);
  std::string many = "GET / HTTP/1.1\r\n";
  for (int i = 0; i < 65; ++i) many += "A: b\r\n";
  EXPECT_EQ(StatusOf(many + "\r\n"), 431);
}

TEST(HttpParser, RefusesWhatTwoReadersCouldReadDifferently) {
  for (const char* bad :
       {"GET /\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "G(T / HTTP/1.1\r\n\r\n",
        "GET http://x/ HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nA : b\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", "GET /%zz HTTP/1.1\r\n\r\n",
        "GET /?a=%1 HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\nA: b\r\n\r\n",
        "PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "PUT / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", "PUT / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        "\x16\x03\x01", "\r\n\r\n"}) {
    EXPECT_EQ(StatusOf(bad), 400) << bad;
  }
  EXPECT_EQ(StatusOf("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"), 501);
  EXPECT_EQ(StatusOf("GET / HTTP/2.0\r\n\r\n"), 505);
}

}  // namespace
}  // namespace lockstep
