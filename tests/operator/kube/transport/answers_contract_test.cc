// What every Transport makes of whole answers, whatever the pieces they come in.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <vector>

#include "operator/kube/http/transport.h"
#include "tests/operator/kube/server/scripted_server.h"
#include "tests/operator/kube/transport/transport_fixture.h"

namespace lockstep::kube {
namespace {

class AnswersTest : public TransportTest {};

INSTANTIATE_TEST_SUITE_P(All, AnswersTest, testing::ValuesIn(kLibraries), NameOfLibrary);

TEST_P(AnswersTest, ARequestArrivesAsItWasGivenAndTheAnswerAsItWasSent) {
  std::promise<Received> seen;
  ScriptedServer server(identity_, ScriptedServer::Always(
                                       [&](ServerConnection& connection, const Received& received) {
                                         seen.set_value(received);
                                         connection.Answer(429, "{\"a\":1}", "Retry-After: 7\r\n");
                                       }));
  auto transport = Make(ConfigFor(server));
  Result<Response> response =
      Send(*transport, {Method::kPatch, "/apis/x/v1/things/a%2Fb?dryRun=All&x=%20", "{\"b\":2}",
                        "application/merge-patch+json"});
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 429);
  EXPECT_EQ(response->body, "{\"a\":1}");
  EXPECT_EQ(response->retry_after, seconds(7));
  Received received = seen.get_future().get();
  EXPECT_EQ(received.method, "PATCH");
  EXPECT_EQ(received.path, "/apis/x/v1/things/a%2Fb?dryRun=All&x=%20");
  EXPECT_EQ(received.body, "{\"b\":2}");
  EXPECT_EQ(received.Header("content-type"), "application/merge-patch+json");
  EXPECT_EQ(received.Header("authorization"), "Bearer sesame");
  EXPECT_EQ(received.Header("accept"), "application/json");
  EXPECT_EQ(received.Header("user-agent"), "lockstep");
}

TEST_P(AnswersTest, EveryMethodIsSentWithAndWithoutABody) {
  ScriptedServer server(
      identity_, ScriptedServer::Always([](ServerConnection& connection, const Received& received) {
        connection.Answer(200, received.method + " " + received.body);
      }));
  auto transport = Make(ConfigFor(server));
  for (Method method :
       {Method::kGet, Method::kPost, Method::kPut, Method::kPatch, Method::kDelete}) {
    for (const std::string& body : {std::string(), std::string("{}"), std::string(200'000, 'x')}) {
      if (method == Method::kGet && !body.empty()) continue;
      Result<Response> response = Send(*transport, {method, "/", body});
      ASSERT_TRUE(response.ok()) << ToString(method) << ": " << response.error().message;
      EXPECT_EQ(response->body, std::string(ToString(method)) + " " + body);
    }
  }
  EXPECT_EQ(server.accepted(), 1);
}

TEST_P(AnswersTest, AnAnswerCutInTwoAtEveryByteIsReadWhole) {
  const std::string with_length =
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"
      "{\"kind\":\"Pod\"";
  const std::string chunked =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
      "7\r\n{\"kind\"\r\n6\r\n:\"Pod\"\r\n0\r\n\r\n";
  for (const std::string& answer : {with_length, chunked}) {
    size_t cut = 0;
    ScriptedServer server(
        identity_, ScriptedServer::Always([&](ServerConnection& connection, const Received&) {
          ++cut;
          connection.Write(answer.substr(0, cut));
          connection.Write(answer.substr(cut));
        }));
    auto transport = Make(ConfigFor(server));
    for (size_t i = 1; i < answer.size(); ++i) {
      Result<Response> response = Send(*transport, Get());
      ASSERT_TRUE(response.ok()) << "cut after " << i << ": " << response.error().message;
      ASSERT_EQ(response->body, "{\"kind\":\"Pod\"") << "cut after " << i;
    }
    EXPECT_EQ(server.accepted(), 1);
  }
}

TEST_P(AnswersTest, AnAnswerOfOneByteAtATimeIsReadWhole) {
  Result<Response> response = AnswerTo([](ServerConnection& connection) {
    connection.Read();
    for (char c : std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                              "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n")) {
      connection.Write(std::string(1, c));
    }
    connection.AwaitClose();
  });
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->body, "{}");
}

TEST_P(AnswersTest, AnAnswerWithoutABodyIsOne) {
  Result<Response> response = AnswerTo([](ServerConnection& connection) {
    connection.Read();
    connection.Write("HTTP/1.1 204 No Content\r\n\r\n");
    connection.AwaitClose();
  });
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 204);
  EXPECT_EQ(response->body, "");
}

TEST_P(AnswersTest, AnInterimAnswerIsNotTheAnswer) {
  ScriptedServer server(
      identity_, ScriptedServer::Always([](ServerConnection& connection, const Received& received) {
        connection.Write("HTTP/1.1 100 Continue\r\n\r\n");
        connection.Answer(201, received.method + " " + received.path);
      }));
  auto transport = Make(ConfigFor(server));
  for (const std::string path : {"/first", "/second"}) {
    Result<Response> response = Send(*transport, {Method::kPost, path, "{}"});
    ASSERT_TRUE(response.ok()) << response.error().message;
    EXPECT_EQ(response->status, 201);
    EXPECT_EQ(response->body, "POST " + path);
  }
}

TEST_P(AnswersTest, HtmlOfAProxyIsAnAnswerLikeAnyOther) {
  Result<Response> response = AnswerTo([](ServerConnection& connection) {
    connection.Read();
    connection.Answer(502, "<html>Bad Gateway</html>", "Content-Type: text/html\r\n");
    connection.AwaitClose();
  });
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 502);
  EXPECT_EQ(response->body, "<html>Bad Gateway</html>");
}

TEST_P(AnswersTest, ARedirectIsNotFollowed) {
  std::atomic<int> elsewhere = 0;
  ScriptedServer other(identity_,
                       ScriptedServer::Always([&](ServerConnection& connection, const Received&) {
                         ++elsewhere;
                         connection.Answer(200, "{}");
                       }));
  for (int status : {301, 302, 303, 307, 308}) {
    Result<Response> response = AnswerTo([&](ServerConnection& connection) {
      connection.Read();
      connection.Answer(status, "", "Location: " + other.url() + "/api\r\n");
      connection.AwaitClose();
    });
    ASSERT_TRUE(response.ok()) << response.error().message;
    EXPECT_EQ(response->status, status);
  }
  EXPECT_EQ(elsewhere, 0);
}

TEST_P(AnswersTest, ManyRequestsAtOnceGetTheirOwnAnswers) {
  ScriptedServer server(
      identity_, ScriptedServer::Always([](ServerConnection& connection, const Received& received) {
        connection.Answer(200, received.path);
      }));
  auto transport = Make(ConfigFor(server));
  std::vector<std::future<Result<Response>>> answers;
  for (int i = 0; i < 100; ++i) {
    answers.push_back(Begin(*transport, Get("/" + std::to_string(i))));
  }
  for (int i = 0; i < 100; ++i) {
    Result<Response> response = answers[static_cast<size_t>(i)].get();
    ASSERT_TRUE(response.ok()) << response.error().message;
    EXPECT_EQ(response->body, "/" + std::to_string(i));
  }
}

}  // namespace
}  // namespace lockstep::kube
