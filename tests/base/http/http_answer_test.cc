#include "base/http/http_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr size_t kMostBody = size_t{1} << 20;

struct Parsed {
  Result<std::optional<HttpAnswer>> answer;
  size_t used = 0;
  bool keep_alive = false;
};

Parsed Parse(std::string_view bytes) {
  Parsed parsed{Error::Internal(""), 0, false};
  parsed.answer = ParseHttpAnswer(bytes, kMostBody, &parsed.used, &parsed.keep_alive);
  return parsed;
}

constexpr std::string_view kWhole =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length:  4 \r\n\r\nbody";

TEST(HttpAnswerTest, AWholeAnswerIsRead) {
  Parsed parsed = Parse(std::string(kWhole) + "HTTP/1.1");
  ASSERT_TRUE(parsed.answer.ok() && *parsed.answer);
  EXPECT_EQ((*parsed.answer)->status, 200);
  EXPECT_EQ((*parsed.answer)->body, "body");
  EXPECT_EQ(parsed.used, kWhole.size());
  EXPECT_TRUE(parsed.keep_alive);
}

TEST(HttpAnswerTest, EveryBeginningOfAnAnswerWaitsForMore) {
  for (size_t n = 0; n < kWhole.size(); ++n) {
    Parsed parsed = Parse(kWhole.substr(0, n));
    ASSERT_TRUE(parsed.answer.ok()) << n;
    EXPECT_FALSE(*parsed.answer) << n;
  }
}

TEST(HttpAnswerTest, AnAnswerThatClosesSaysSo) {
  Parsed parsed = Parse("HTTP/1.1 409 Conflict\r\nConnection: Close\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(parsed.answer.ok() && *parsed.answer);
  EXPECT_EQ((*parsed.answer)->status, 409);
  EXPECT_FALSE(parsed.keep_alive);
}

TEST(HttpAnswerTest, WhatIsNoSuchAnswerIsRefused) {
  for (std::string_view bytes :
       {"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 abc\r\n\r\n",
        "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"}) {
    EXPECT_FALSE(Parse(bytes).answer.ok()) << bytes;
  }
}

TEST(HttpAnswerTest, ABodyOverTheLimitIsRefusedBeforeItComes) {
  Parsed parsed =
      Parse("HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(kMostBody + 1) + "\r\n\r\n");
  ASSERT_FALSE(parsed.answer.ok());
  EXPECT_EQ(parsed.answer.error().kind, ErrorKind::kTooLarge);
}

TEST(HttpAnswerTest, AHeadWithoutEndIsRefused) {
  std::string head = "HTTP/1.1 200 OK\r\nX: " + std::string(kMaxAnswerHead, 'x');
  ASSERT_FALSE(Parse(head).answer.ok());
  EXPECT_EQ(Parse(head).answer.error().kind, ErrorKind::kTooLarge);
}

}  // namespace
}  // namespace lockstep
