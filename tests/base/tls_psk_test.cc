#include "base/crypto/tls_psk.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

Key KeyOf(uint8_t byte) {
  Key key;
  key.fill(byte);
  return key;
}

// Two sessions joined in memory: carries ciphertext both ways until both are still.
struct Pair {
  TlsSession client;
  TlsSession server;
  std::string at_client;
  std::string at_server;
  Status client_status;
  Status server_status;

  bool Carry(TlsSession* from, TlsSession* to, std::string* plain, Status* status) {
    const std::string bytes(from->output());
    from->ConsumeOutput(bytes.size());
    if (bytes.empty() || !status->ok()) return false;
    *status = to->Receive(bytes, plain);
    return true;
  }
  void Run() {
    bool moved = true;
    while (moved) {
      moved = Carry(&client, &server, &at_server, &server_status);
      moved = Carry(&server, &client, &at_client, &client_status) || moved;
    }
  }
};

struct Sides {
  TlsPskContext client;
  TlsPskContext server;
  Pair Connect() {
    return {std::move(*client.NewSession()), std::move(*server.NewSession()), "", "", {}, {}};
  }
};

Sides MakeSides(const Key& client_key, const std::string& client_job, const Key& server_key,
                const std::string& server_job) {
  return {std::move(*TlsPskContext::Client(client_key, client_job)),
          std::move(*TlsPskContext::Server(server_key, server_job))};
}

TEST(TlsPsk, CarriesBytesBothWaysBetweenHoldersOfTheKey) {
  Sides sides = MakeSides(KeyOf(1), "job", KeyOf(1), "job");
  Pair pair = sides.Connect();
  pair.Run();
  ASSERT_TRUE(pair.client_status.ok());
  ASSERT_TRUE(pair.server_status.ok());
  ASSERT_TRUE(pair.client.established());
  ASSERT_TRUE(pair.server.established());

  const std::string big(100'000, 'x');
  ASSERT_TRUE(pair.client.Send("to the server").ok());
  ASSERT_TRUE(pair.server.Send(big).ok());
  pair.Run();
  EXPECT_EQ(pair.at_server, "to the server");
  EXPECT_EQ(pair.at_client, big);
}

TEST(TlsPsk, GoesOnWhenTheBytesArriveOneByOne) {
  Sides sides = MakeSides(KeyOf(1), "job", KeyOf(1), "job");
  Pair pair = sides.Connect();
  std::string plain;
  for (int round = 0; round < 8; ++round) {
    for (TlsSession* from : {&pair.client, &pair.server}) {
      TlsSession* to = from == &pair.client ? &pair.server : &pair.client;
      while (!from->output().empty()) {
        const std::string byte(from->output().substr(0, 1));
        from->ConsumeOutput(1);
        ASSERT_TRUE(to->Receive(byte, &plain).ok());
      }
    }
  }
  EXPECT_TRUE(pair.client.established());
  EXPECT_TRUE(pair.server.established());
}

TEST(TlsPsk, TheServerRefusesAClientWithAnotherKey) {
  Sides sides = MakeSides(KeyOf(1), "job", KeyOf(2), "job");
  Pair pair = sides.Connect();
  pair.Run();
  EXPECT_FALSE(pair.server_status.ok());
  EXPECT_EQ(pair.server_status.error().kind, ErrorKind::kDenied);
  EXPECT_FALSE(pair.server.established());
  EXPECT_FALSE(pair.client.established());
}

TEST(TlsPsk, TheServerRefusesAClientOfAnotherJob) {
  Sides sides = MakeSides(KeyOf(1), "job a", KeyOf(1), "job b");
  Pair pair = sides.Connect();
  pair.Run();
  EXPECT_FALSE(pair.server_status.ok());
  EXPECT_FALSE(pair.server.established());
  EXPECT_FALSE(pair.client.established());
}

// A server that ignores the key and shows a certificate instead, as a man in the middle would.
struct CertificateServer {
  CertificateServer() {
    context.reset(SSL_CTX_new(TLS_server_method()));
    EVP_PKEY* key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
    X509* certificate = X509_new();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_sign(certificate, key, EVP_sha256());
    SSL_CTX_use_certificate(context.get(), certificate);
    SSL_CTX_use_PrivateKey(context.get(), key);
    X509_free(certificate);
    EVP_PKEY_free(key);
    ssl.reset(SSL_new(context.get()));
    SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(ssl.get());
  }
  std::string Answer(const std::string& bytes) {
    BIO_write(SSL_get_rbio(ssl.get()), bytes.data(), static_cast<int>(bytes.size()));
    SSL_do_handshake(ssl.get());
    char* data = nullptr;
    const long size = BIO_get_mem_data(SSL_get_wbio(ssl.get()), &data);
    std::string out(data, static_cast<size_t>(size));
    BIO_reset(SSL_get_wbio(ssl.get()));
    return out;
  }
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{nullptr, &SSL_CTX_free};
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl{nullptr, &SSL_free};
};

TEST(TlsPsk, TheClientRefusesAServerThatIgnoresTheKeyAndShowsACertificate) {
  const auto context = TlsPskContext::Client(KeyOf(1), "job");
  TlsSession client = std::move(*context->NewSession());
  CertificateServer server;
  std::string plain;
  Status status;
  for (int round = 0; round < 4 && status.ok(); ++round) {
    const std::string bytes(client.output());
    client.ConsumeOutput(bytes.size());
    status = client.Receive(server.Answer(bytes), &plain);
  }
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kDenied);
  EXPECT_FALSE(client.established());
}

TEST(TlsPsk, TellsAnOrderlyCloseFromACut) {
  Sides sides = MakeSides(KeyOf(1), "job", KeyOf(1), "job");
  Pair pair = sides.Connect();
  pair.Run();
  EXPECT_FALSE(pair.server.peer_closed());
  pair.client.Close();
  pair.Run();
  EXPECT_TRUE(pair.server.peer_closed());
}

TEST(TlsPsk, RefusesChangedCiphertext) {
  Sides sides = MakeSides(KeyOf(1), "job", KeyOf(1), "job");
  Pair pair = sides.Connect();
  pair.Run();
  ASSERT_TRUE(pair.client.Send("step 10").ok());
  std::string bytes(pair.client.output());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  EXPECT_FALSE(pair.server.Receive(bytes, &pair.at_server).ok());
  EXPECT_EQ(pair.at_server, "");
}

TEST(TlsPsk, TheServerKnowsWhichHellosItHasAnswered) {
  const Sides sides = MakeSides(KeyOf(1), "job", KeyOf(1), "job");
  const auto answers = [&](const std::string& hello) {
    std::string plain;
    return sides.server.NewSession()->Receive(hello, &plain).ok();
  };
  const std::string hello(sides.client.NewSession()->output());
  EXPECT_FALSE(sides.server.HasAnswered(hello));
  ASSERT_TRUE(answers(hello));
  EXPECT_TRUE(sides.server.HasAnswered(hello));
  EXPECT_FALSE(sides.server.HasAnswered(sides.client.NewSession()->output()));
  // Without the key nobody makes it remember anything, and so forget.
  const auto other = TlsPskContext::Client(KeyOf(2), "job");
  const std::string wrong(other->NewSession()->output());
  ASSERT_FALSE(answers(wrong));
  EXPECT_FALSE(sides.server.HasAnswered(wrong));
}

TEST(TlsPsk, TheServerForgetsTheOldestHelloFirst) {
  const Sides sides = MakeSides(KeyOf(1), "job", KeyOf(1), "job");
  std::vector<std::string> hellos;
  for (size_t i = 0; i <= TlsPskContext::kHellosRemembered; ++i) {
    hellos.emplace_back(sides.client.NewSession()->output());
    std::string plain;
    ASSERT_TRUE(sides.server.NewSession()->Receive(hellos.back(), &plain).ok());
  }
  EXPECT_FALSE(sides.server.HasAnswered(hellos[0]));
  EXPECT_TRUE(sides.server.HasAnswered(hellos[1]));
  EXPECT_TRUE(sides.server.HasAnswered(hellos.back()));
}

TEST(CheckClientHello, KnowsARealOneFromGarbageByItsFirstBytes) {
  const auto context = TlsPskContext::Client(KeyOf(1), "job");
  TlsSession client = std::move(*context->NewSession());
  const std::string hello(client.output());
  EXPECT_EQ(CheckClientHello(hello), ClientHelloCheck::kComplete);
  EXPECT_EQ(CheckClientHello(""), ClientHelloCheck::kNeedMore);
  for (size_t cut = 1; cut < hello.size(); ++cut) {
    ASSERT_EQ(CheckClientHello(hello.substr(0, cut)), ClientHelloCheck::kNeedMore) << cut;
  }
  EXPECT_EQ(CheckClientHello("GET / HTTP/1.1\r\n"), ClientHelloCheck::kNotTls);
  EXPECT_EQ(CheckClientHello(std::string_view("\0\0\0", 3)), ClientHelloCheck::kNotTls);
  EXPECT_EQ(CheckClientHello("\x16\x03\x01\xff\xff"), ClientHelloCheck::kTooLarge);
  EXPECT_EQ(CheckClientHello(std::string_view("\x16\x03\x01\x01\x00\x02", 6)),
            ClientHelloCheck::kNotTls);
  // The record ends before the ClientHello does.
  EXPECT_EQ(CheckClientHello(std::string_view("\x16\x03\x01\x00\x08\x01\x00\x01\x00", 9)),
            ClientHelloCheck::kNotTls);
}

}  // namespace
}  // namespace lockstep
