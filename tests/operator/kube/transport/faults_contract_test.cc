// What every Transport makes of answers that are cut off, garbage, late or too large.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "operator/kube/http/transport.h"
#include "tests/operator/kube/server/scripted_server.h"
#include "tests/operator/kube/transport/transport_fixture.h"

namespace lockstep::kube {
namespace {

class FaultsTest : public TransportTest {};

INSTANTIATE_TEST_SUITE_P(All, FaultsTest, testing::ValuesIn(kLibraries), NameOfLibrary);

TEST_P(FaultsTest, AnAnswerCutOffAnywhereIsUnavailable) {
  for (const char* part : {"", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\nContent-Le",
                           "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"a\":",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\"",
                           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"}) {
    for (bool reset : {false, true}) {
      Result<Response> response = AnswerTo([&](ServerConnection& connection) {
        connection.Read();
        if (*part != '\0') connection.Write(part);
        if (reset) connection.Cut();
      });
      ASSERT_FALSE(response.ok()) << part;
      EXPECT_EQ(response.error().kind, ErrorKind::kUnavailable)
          << part << ": " << response.error().message;
    }
  }
}

TEST_P(FaultsTest, AnAnswerWithoutALengthThatIsCutOffIsUnavailable) {
  Result<Response> response = AnswerTo([](ServerConnection& connection) {
    connection.Read();
    connection.Write("HTTP/1.1 200 OK\r\n\r\n{\"a\":");
    connection.Cut();
  });
  ASSERT_FALSE(response.ok()) << response->body;
  EXPECT_EQ(response.error().kind, ErrorKind::kUnavailable) << response.error().message;
}

TEST_P(FaultsTest, GarbageIsUnavailable) {
  for (const char* garbage :
       {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n{}\r\n"}) {
    Result<Response> response = AnswerTo([&](ServerConnection& connection) {
      connection.Read();
      connection.Write(garbage);
    });
    ASSERT_FALSE(response.ok()) << garbage << response->status;
    EXPECT_EQ(response.error().kind, ErrorKind::kUnavailable) << response.error().message;
  }
}

TEST_P(FaultsTest, AChunkSizeThatIsNoSizeIsAnError) {
  for (const char* size : {"-1", "ffffffffffffffff", "80000000000000000000"}) {
    Result<Response> response = AnswerTo([&](ServerConnection& connection) {
      connection.Read();
      connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + std::string(size) +
                       "\r\n{}\r\n");
    });
    EXPECT_FALSE(response.ok()) << size;
  }
}

TEST_P(FaultsTest, AServerThatNeverAnswersIsATimeout) {
  Result<Response> response =
      AnswerTo([](ServerConnection& connection) { connection.AwaitClose(); }, milliseconds(100));
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kTimeout) << response.error().message;
}

TEST_P(FaultsTest, TheDeadlineIsForAllOfAnAnswerThatNeverEnds) {
  Result<Response> response = AnswerTo(
      [](ServerConnection& connection) {
        connection.Read();
        connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        // Each of these would begin an idle timeout anew.
        while (connection.Write("1\r\nx\r\n")) {
          std::this_thread::sleep_for(milliseconds(10));
        }
      },
      milliseconds(300));
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kTimeout) << response.error().message;
}

TEST_P(FaultsTest, AServerThatTakesConnectionsAndSaysNothingIsATimeout) {
  ScriptedServer server(identity_, [](ServerConnection&) {}, {.speaks = false});
  auto transport = Make(ConfigFor(server));
  Result<Response> response = Send(*transport, Get(), milliseconds(200));
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kTimeout) << response.error().message;
}

TEST_P(FaultsTest, APortThatNobodyListensOnIsUnavailable) {
  ClientConfig config;
  {
    ScriptedServer server(identity_, [](ServerConnection&) {});
    config = ConfigFor(server);
  }
  auto transport = Make(config);
  Result<Response> response = Send(*transport, Get());
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kUnavailable) << response.error().message;
}

TEST_P(FaultsTest, ABodyOverTheLimitIsTooLarge) {
  std::string large(100'000, 'x');
  for (bool chunked : {false, true}) {
    ScriptedServer server(
        identity_, ScriptedServer::Always([&](ServerConnection& connection, const Received&) {
          if (!chunked) {
            connection.Answer(200, large);
          } else {
            connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
            while (connection.Write("400\r\n" + std::string(1024, 'x') + "\r\n")) {
            }
          }
        }));
    TransportOptions options = Cold();
    options.max_body = 99'999;
    auto transport = Make(ConfigFor(server), options);
    Result<Response> response = Send(*transport, Get());
    ASSERT_FALSE(response.ok());
    EXPECT_EQ(response.error().kind, ErrorKind::kTooLarge) << response.error().message;
  }
}

TEST_P(FaultsTest, OneChunkOverTheLimitIsTooLargeBeforeAllOfItIsThere) {
  ScriptedServer server(
      identity_, ScriptedServer::Always([&](ServerConnection& connection, const Received&) {
        connection.Write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n40000000\r\n");
        connection.Write(std::string(1 << 20, 'x'));
        connection.AwaitClose();
      }));
  TransportOptions options = Cold();
  options.max_body = 1 << 19;
  auto transport = Make(ConfigFor(server), options);
  Result<Response> response = Send(*transport, Get());
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kTooLarge) << response.error().message;
}

TEST_P(FaultsTest, HeadersThatNeverEndAreTooLarge) {
  Result<Response> response = AnswerTo([](ServerConnection& connection) {
    connection.Read();
    connection.Write("HTTP/1.1 200 OK\r\n");
    while (connection.Write("X-Filler: " + std::string(1000, 'x') + "\r\n")) {
    }
  });
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kTooLarge) << response.error().message;
}

TEST_P(FaultsTest, ABodyOfExactlyTheLimitIsReadWhateverThePiecesItComesIn) {
  const size_t limit = 100'000;
  std::string chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (size_t i = 0; i < limit; ++i) chunks += "1\r\nx\r\n";
  chunks += "0\r\n\r\n";
  for (bool chunked : {false, true}) {
    ScriptedServer server(
        identity_, ScriptedServer::Always([&](ServerConnection& connection, const Received&) {
          if (chunked) {
            connection.Write(chunks);
          } else {
            connection.Answer(200, std::string(limit, 'x'));
          }
        }));
    TransportOptions options = Cold();
    options.max_body = limit;
    auto transport = Make(ConfigFor(server), options);
    Result<Response> response = Send(*transport, Get());
    ASSERT_TRUE(response.ok()) << response.error().message;
    EXPECT_EQ(response->body.size(), limit);
  }
}

TEST_P(FaultsTest, HeadersOfAProxyThatIsFondOfThemAreRead) {
  std::string headers;
  for (int i = 0; i < 50; ++i) headers += "X-Filler: " + std::string(1000, 'x') + "\r\n";
  Result<Response> response = AnswerTo([&](ServerConnection& connection) {
    connection.Read();
    connection.Answer(200, "{}", headers);
    connection.AwaitClose();
  });
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->body, "{}");
}

}  // namespace
}  // namespace lockstep::kube
