// Whom every Transport trusts, and how it proves who asks.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>

#include "operator/kube/http/transport.h"
#include "tests/operator/kube/server/scripted_server.h"
#include "tests/operator/kube/transport/transport_fixture.h"

namespace lockstep::kube {
namespace {

class TrustTest : public TransportTest {};

INSTANTIATE_TEST_SUITE_P(All, TrustTest, testing::ValuesIn(kLibraries), NameOfLibrary);

TEST_P(TrustTest, AServerOfAnotherAuthorityIsDenied) {
  TestCa other("another CA");
  Issued identity = other.Issue("api", "IP:127.0.0.1");
  std::atomic<bool> heard = false;
  ScriptedServer server(identity, [&](ServerConnection& connection) {
    if (connection.Read()) heard = true;
  });
  auto transport = Make(ConfigFor(server));
  Result<Response> response = Send(*transport, Get());
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kDenied) << response.error().message;
  EXPECT_FALSE(heard);
}

TEST_P(TrustTest, AnAuthorityThatTheSystemTrustsIsDenied) {
  TestCa system("a public CA");
  std::string file = testing::TempDir() + "/public-ca.pem";
  std::ofstream(file) << system.pem();
  setenv("SSL_CERT_FILE", file.c_str(), 1);
  setenv("CURL_CA_BUNDLE", file.c_str(), 1);
  Issued identity = system.Issue("api", "IP:127.0.0.1");
  ScriptedServer server(identity,
                        ScriptedServer::Always([](ServerConnection& connection, const Received&) {
                          connection.Answer(200, "{}");
                        }));
  auto transport = Make(ConfigFor(server));
  Result<Response> response = Send(*transport, Get());
  setenv("SSL_CERT_FILE", "/dev/null", 1);
  unsetenv("CURL_CA_BUNDLE");
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kDenied) << response.error().message;
}

TEST_P(TrustTest, ACertificateForAnotherNameIsDenied) {
  Issued identity = ca_.Issue("api", "DNS:api.test,IP:127.0.0.2");
  ScriptedServer server(identity,
                        ScriptedServer::Always([](ServerConnection& connection, const Received&) {
                          connection.Answer(200, "{}");
                        }));
  ClientConfig config = ConfigFor(server);
  Result<Response> response = Send(*Make(config), Get());
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kDenied) << response.error().message;

  config.tls_server_name = "api.test";
  response = Send(*Make(config), Get());
  EXPECT_TRUE(response.ok()) << response.error().message;

  config.tls_server_name = "other.test";
  response = Send(*Make(config), Get());
  EXPECT_FALSE(response.ok());
}

TEST_P(TrustTest, TlsOlderThan12IsNotSpoken) {
  ScriptedServer server(identity_, [](ServerConnection& connection) { connection.AwaitClose(); },
                        {.max_version = TLS1_1_VERSION});
  auto transport = Make(ConfigFor(server));
  EXPECT_FALSE(Send(*transport, Get()).ok());
  EXPECT_EQ(server.handshakes(), 0);
}

TEST_P(TrustTest, TheClientsCertificateIsShown) {
  ScriptedServer server(identity_,
                        ScriptedServer::Always([](ServerConnection& connection, const Received&) {
                          connection.Answer(200, connection.PeerName());
                        }),
                        {.client_ca = ca_.pem()});
  ClientConfig config = ConfigFor(server);
  config.token = {};
  Issued client = ca_.Issue("system:operator");
  config.certificate.value = client.certificate;
  config.key.value = client.key;
  Result<Response> response = Send(*Make(config), Get());
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->body, "system:operator");
}

TEST_P(TrustTest, ARefusedTokenIsReadAgainFromItsFile) {
  ScriptedServer server(
      identity_, ScriptedServer::Always([](ServerConnection& connection, const Received& received) {
        bool known = received.Header("authorization") == "Bearer new";
        connection.Answer(known ? 200 : 401, "{}");
      }));
  ClientConfig config = ConfigFor(server);
  config.token = {.value = "", .file = testing::TempDir() + "/token-" + GetParam().name};
  std::ofstream(config.token.file) << "old\n";
  auto transport = Make(config);
  EXPECT_EQ(Send(*transport, Get())->status, 401);
  std::ofstream(config.token.file) << "new\n";
  Time until = BootTime() + kPatience;
  int status = 0;
  while (status != 200 && BootTime() < until) status = Send(*transport, Get())->status;
  EXPECT_EQ(status, 200);
}

TEST_P(TrustTest, ANewAuthorityReplacesTheOldOne) {
  std::string file = testing::TempDir() + "/ca-" + GetParam().name;
  TestCa next("next CA");
  Issued identity = next.Issue("api", "IP:127.0.0.1");
  auto answer = ScriptedServer::Always(
      [](ServerConnection& connection, const Received&) { connection.Answer(200, "{}"); });
  ScriptedServer server(identity, answer);
  ClientConfig config = ConfigFor(server);
  config.ca = {.value = "", .file = file};
  std::ofstream(file) << ca_.pem();
  auto transport = Make(config, Cold(), milliseconds(20));
  Result<Response> response = Send(*transport, Get());
  ASSERT_FALSE(response.ok());
  EXPECT_EQ(response.error().kind, ErrorKind::kDenied) << response.error().message;
  std::ofstream(file) << next.pem();
  Time until = BootTime() + kPatience;
  while (!response.ok() && BootTime() < until) response = Send(*transport, Get());
  EXPECT_TRUE(response.ok()) << response.error().message;
  // And the other way: connections made under the old one are not used again.
  std::ofstream(file) << ca_.pem();
  while (response.ok() && BootTime() < until) response = Send(*transport, Get());
  EXPECT_FALSE(response.ok());
}

}  // namespace
}  // namespace lockstep::kube
