// Which connections every Transport makes, keeps, uses again and ends.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>

#include "operator/kube/http/transport.h"
#include "tests/operator/kube/server/scripted_server.h"
#include "tests/operator/kube/transport/transport_fixture.h"

namespace lockstep::kube {
namespace {

class ConnectionsTest : public TransportTest {};

INSTANTIATE_TEST_SUITE_P(All, ConnectionsTest, testing::ValuesIn(kLibraries), NameOfLibrary);

TEST_P(ConnectionsTest, AConnectionIsUsedAgain) {
  ScriptedServer server(identity_,
                        ScriptedServer::Always([](ServerConnection& connection, const Received&) {
                          connection.Answer(200, std::to_string(connection.number()));
                        }));
  auto transport = Make(ConfigFor(server));
  for (int i = 0; i < 20; ++i) {
    Result<Response> response = Send(*transport, Get());
    ASSERT_TRUE(response.ok()) << response.error().message;
    EXPECT_EQ(response->body, "0");
  }
}

TEST_P(ConnectionsTest, AConnectionThatTheServerClosedMeanwhileIsReplaced) {
  for (bool cut : {false, true}) {
    ScriptedServer server(identity_, [&](ServerConnection& connection) {
      connection.Read();
      connection.Answer(200, "{}");
      if (cut) connection.Cut();
    });
    auto transport = Make(ConfigFor(server));
    for (int i = 0; i < 20; ++i) {
      Result<Response> response = Send(*transport, {Method::kPost, "/api", "{}"});
      ASSERT_TRUE(response.ok()) << i << ": " << response.error().message;
    }
  }
}

TEST_P(ConnectionsTest, AKeptConnectionThatIsCutOnARequestGivesAnAnswerOrUnavailable) {
  // The second request of each connection is read and then cut: it may be sent again, on another
  // connection, or be reported; it is never lost without a word.
  std::atomic<int> posts = 0;
  ScriptedServer server(identity_, [&](ServerConnection& connection) {
    for (int i = 0; auto received = connection.Read(); ++i) {
      if (received->method == "POST") ++posts;
      if (i == 1) {
        connection.Cut();
        return;
      }
      connection.Answer(200, "{}");
    }
  });
  auto transport = Make(ConfigFor(server));
  ASSERT_TRUE(Send(*transport, Get()).ok());
  Result<Response> response = Send(*transport, {Method::kPost, "/api", "{}"});
  if (!response.ok()) EXPECT_EQ(response.error().kind, ErrorKind::kUnavailable);
  EXPECT_GE(posts, 1);
  EXPECT_LE(posts, 2);
}

TEST_P(ConnectionsTest, ConnectionsAreWarmBeforeTheyAreNeeded) {
  constexpr int kWanted = 8;
  std::atomic<int> connected = 0;
  std::promise<void> last;
  std::shared_future<void> all(last.get_future());
  ScriptedServer server(identity_, [&](ServerConnection& connection) {
    if (++connected == kWanted) last.set_value();
    all.wait_for(kPatience);  // an early answer would let its connection be used again
    while (connection.Read()) connection.Answer(200, "{}");
  });
  TransportOptions options;
  options.connections = kWanted;
  auto transport = Make(ConfigFor(server), options);
  EXPECT_EQ(all.wait_for(kPatience), std::future_status::ready);
}

TEST_P(ConnectionsTest, ItsEndEndsWhatIsUnderWay) {
  std::promise<void> arrived;
  ScriptedServer server(identity_, [&](ServerConnection& connection) {
    connection.Read();
    arrived.set_value();
    connection.AwaitClose();
  });
  auto transport = Make(ConfigFor(server));
  std::future<Result<Response>> answer = Begin(*transport, Get());
  arrived.get_future().wait();
  transport.reset();
  ASSERT_EQ(answer.wait_for(seconds(0)), std::future_status::ready);
  EXPECT_EQ(answer.get().error().kind, ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace lockstep::kube
