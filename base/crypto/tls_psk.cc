#include "base/crypto/tls_psk.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <unordered_set>
#include <utility>

namespace lockstep {
namespace {

constexpr size_t kMaxIdentity = 128;
constexpr size_t kMaxRecord = 16 * 1024;
constexpr char kSuite[] = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kSuiteId = {0x13, 0x01};

// The reason of the newest OpenSSL error, and an empty queue.
std::string TakeOpenSslError() {
  std::string reason;
  while (const unsigned long code = ERR_get_error()) {
    const char* text = ERR_reason_error_string(code);
    if (text != nullptr) reason = text;
  }
  return reason.empty() ? "unknown reason" : reason;
}

int ClampToInt(size_t size) {
  return static_cast<int>(std::min<size_t>(size, std::numeric_limits<int>::max()));
}

// RFC 8446 5.1 and 4: record header, handshake header, version, random.
constexpr size_t kRecordHeader = 5;
constexpr size_t kHandshakeHeader = 4;
constexpr size_t kRandomAt = kRecordHeader + kHandshakeHeader + 2;

}  // namespace

// What the sessions of a context have in common. OpenSSL's own context is that of all keys: it
// takes 13 KB and 0.2 ms to make.
struct TlsPskContext::Shared {
  Key key{};
  std::string identity;
  // Randoms of the ClientHellos that a server answered; the oldest is forgotten first.
  std::unordered_set<std::string> answered;
  std::deque<std::string> answered_in_order;

  ~Shared() { OPENSSL_cleanse(key.data(), key.size()); }

  void Remember(std::string random) {
    if (!answered.insert(random).second) return;
    answered_in_order.push_back(std::move(random));
    if (answered_in_order.size() <= kHellosRemembered) return;
    answered.erase(answered_in_order.front());
    answered_in_order.pop_front();
  }
};

struct PskCallbacks {
  static TlsPskContext::Shared* SharedOf(SSL* ssl) {
    return static_cast<TlsPskContext::Shared*>(SSL_get_app_data(ssl));
  }

  static SSL_SESSION* MakeSession(SSL* ssl, const Key& key) {
    const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kSuiteId.data());
    SSL_SESSION* session = SSL_SESSION_new();
    if (cipher != nullptr && session != nullptr &&
        SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
      return session;
    }
    SSL_SESSION_free(session);
    return nullptr;
  }

  // An unknown identity leaves no session: the handshake then wants a certificate, and fails.
  static int Find(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
    const TlsPskContext::Shared* shared = SharedOf(ssl);
    *session = nullptr;
    if (std::string_view(reinterpret_cast<const char*>(identity), size) != shared->identity) {
      return 1;
    }
    *session = MakeSession(ssl, shared->key);
    return *session != nullptr ? 1 : 0;
  }

  static int Use(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, size_t* size,
                 SSL_SESSION** session) {
    *session = nullptr;
    *identity = nullptr;
    *size = 0;
    if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
    const TlsPskContext::Shared* shared = SharedOf(ssl);
    *session = MakeSession(ssl, shared->key);
    if (*session == nullptr) return 0;
    *identity = reinterpret_cast<const unsigned char*>(shared->identity.data());
    *size = shared->identity.size();
    return 1;
  }
};

namespace {

// nullptr: OpenSSL's newest error says why not.
SSL_CTX* NewContext(bool is_server) {
  // The image's openssl.cnf must not decide which suites there are.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
  SSL_CTX* context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
  if (context == nullptr) return nullptr;
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (is_server) {
    SSL_CTX_set_psk_find_session_callback(context, &PskCallbacks::Find);
  } else {
    SSL_CTX_set_psk_use_session_callback(context, &PskCallbacks::Use);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
      SSL_CTX_set_ciphersuites(context, kSuite) == 1 &&
      SSL_CTX_set1_groups_list(context, "X25519:P-256") == 1 &&
      SSL_CTX_set_num_tickets(context, 0) == 1 && SSL_CTX_set_max_early_data(context, 0) == 1) {
    return context;
  }
  SSL_CTX_free(context);
  return nullptr;
}

// That of all keys, for as long as the process lives.
SSL_CTX* OpenSslContext(bool is_server) {
  static SSL_CTX* const server = NewContext(true);
  static SSL_CTX* const client = NewContext(false);
  return is_server ? server : client;
}

}  // namespace

void TlsSession::SslFree::operator()(ssl_st* ssl) const { SSL_free(ssl); }

TlsPskContext::TlsPskContext(std::unique_ptr<Shared> shared, bool is_server)
    : shared_(std::move(shared)), is_server_(is_server) {}
TlsPskContext::TlsPskContext(TlsPskContext&&) noexcept = default;
TlsPskContext& TlsPskContext::operator=(TlsPskContext&&) noexcept = default;
TlsPskContext::~TlsPskContext() = default;

Result<TlsPskContext> TlsPskContext::Server(const Key& key, const std::string& identity) {
  return Make(key, identity, true);
}

Result<TlsPskContext> TlsPskContext::Client(const Key& key, const std::string& identity) {
  return Make(key, identity, false);
}

Result<TlsPskContext> TlsPskContext::Make(const Key& key, const std::string& identity,
                                          bool is_server) {
  if (identity.empty() || identity.size() > kMaxIdentity) {
    return Error::Invalid("TLS: the key's name must have 1 to 128 bytes");
  }
  if (OpenSslContext(is_server) == nullptr) return Error::Internal("TLS: " + TakeOpenSslError());
  auto shared = std::make_unique<Shared>();
  shared->key = key;
  shared->identity = identity;
  return TlsPskContext(std::move(shared), is_server);
}

Result<TlsSession> TlsPskContext::NewSession() const {
  SSL* ssl = SSL_new(OpenSslContext(is_server_));
  if (ssl == nullptr) return Error::Internal("TLS: " + TakeOpenSslError());
  SSL_set_app_data(ssl, shared_.get());
  TlsSession session(ssl, is_server_);
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  if (in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    return Error::Internal("TLS: " + TakeOpenSslError());
  }
  SSL_set_bio(ssl, in, out);
  if (is_server_) {
    SSL_set_accept_state(ssl);
    return session;
  }
  SSL_set_connect_state(ssl);
  const Status started = session.Handshake();
  if (!started.ok()) return started.error();
  return session;
}

bool TlsPskContext::HasAnswered(std::string_view client_hello) const {
  return client_hello.size() >= kRandomAt + SSL3_RANDOM_SIZE &&
         shared_->answered.contains(std::string(client_hello.substr(kRandomAt, SSL3_RANDOM_SIZE)));
}

TlsSession::TlsSession(ssl_st* ssl, bool is_server) : ssl_(ssl), is_server_(is_server) {}
TlsSession::TlsSession(TlsSession&&) noexcept = default;
TlsSession& TlsSession::operator=(TlsSession&&) noexcept = default;
TlsSession::~TlsSession() = default;

Error TlsSession::HandshakeError() const {
  const std::string reason = TakeOpenSslError();
  const char* who = is_server_ ? "client" : "server";
  return Error::Denied(std::string("TLS: the ") + who +
                       " does not hold this job's key, or belongs to another job (" + reason + ")");
}

Status TlsSession::Handshake() {
  ERR_clear_error();
  const int done = SSL_do_handshake(ssl_.get());
  if (done != 1) {
    const int why = SSL_get_error(ssl_.get(), done);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return HandshakeError();
    // A server that says anything has seen by the binder that the ClientHello holds the key.
    if (is_server_ && !output().empty()) {
      std::string random(SSL3_RANDOM_SIZE, '\0');
      SSL_get_client_random(ssl_.get(), reinterpret_cast<unsigned char*>(random.data()),
                            random.size());
      PskCallbacks::SharedOf(ssl_.get())->Remember(std::move(random));
    }
    return {};
  }
  if (SSL_session_reused(ssl_.get()) != 1) {
    return Error::Denied("TLS: the handshake ended without this job's key");
  }
  established_ = true;
  return {};
}

Status TlsSession::Receive(std::string_view ciphertext, std::string* plain) {
  while (!ciphertext.empty()) {
    const int taken =
        BIO_write(SSL_get_rbio(ssl_.get()), ciphertext.data(), ClampToInt(ciphertext.size()));
    if (taken <= 0) return Error::Internal("TLS: out of memory for the received bytes");
    ciphertext.remove_prefix(static_cast<size_t>(taken));
  }
  if (!established_) {
    const Status handshake = Handshake();
    if (!handshake.ok() || !established_) return handshake;
  }
  std::array<char, kMaxRecord> buffer;
  while (true) {
    ERR_clear_error();
    const int got = SSL_read(ssl_.get(), buffer.data(), ClampToInt(buffer.size()));
    if (got > 0) {
      plain->append(buffer.data(), static_cast<size_t>(got));
      continue;
    }
    switch (SSL_get_error(ssl_.get(), got)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        return {};
      case SSL_ERROR_ZERO_RETURN:
        peer_closed_ = true;
        return {};
      default:
        return Error::Unavailable("TLS: the peer sent what this session cannot read (" +
                                  TakeOpenSslError() + ")");
    }
  }
}

Status TlsSession::Send(std::string_view plain) {
  if (!established_) return Error::Internal("TLS: sending before the handshake is done");
  while (!plain.empty()) {
    ERR_clear_error();
    const int sent = SSL_write(ssl_.get(), plain.data(), ClampToInt(plain.size()));
    if (sent <= 0) {
      SSL_get_error(ssl_.get(), sent);
      return Error::Internal("TLS: cannot encrypt (" + TakeOpenSslError() + ")");
    }
    plain.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

void TlsSession::Close() {
  if (!established_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

std::string_view TlsSession::output() {
  char* data = nullptr;
  const long size = BIO_get_mem_data(SSL_get_wbio(ssl_.get()), &data);
  return size > 0 ? std::string_view(data, static_cast<size_t>(size)) : std::string_view();
}

void TlsSession::ConsumeOutput(size_t bytes) {
  std::array<char, 4096> sink;
  BIO* out = SSL_get_wbio(ssl_.get());
  if (bytes >= output().size()) {
    BIO_reset(out);
    return;
  }
  while (bytes > 0) {
    const int read = BIO_read(out, sink.data(), ClampToInt(std::min(bytes, sink.size())));
    if (read <= 0) return;
    bytes -= static_cast<size_t>(read);
  }
}

ClientHelloCheck CheckClientHello(std::string_view bytes) {
  // Type 22 (handshake), version 3.x, length in two bytes; 4: type 1 (ClientHello), length in
  // three.
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (!bytes.empty() && at(0) != 0x16) return ClientHelloCheck::kNotTls;
  if (bytes.size() > 1 && at(1) != 0x03) return ClientHelloCheck::kNotTls;
  if (bytes.size() > 2 && at(2) > 0x04) return ClientHelloCheck::kNotTls;
  if (bytes.size() > kRecordHeader && at(kRecordHeader) != 0x01) return ClientHelloCheck::kNotTls;
  if (bytes.size() < kRecordHeader) return ClientHelloCheck::kNeedMore;
  const size_t record = (size_t{at(3)} << 8) + at(4);
  if (record < kHandshakeHeader) return ClientHelloCheck::kNotTls;
  if (kRecordHeader + record > kMaxClientHello) return ClientHelloCheck::kTooLarge;
  if (bytes.size() < kRecordHeader + kHandshakeHeader) return ClientHelloCheck::kNeedMore;
  // A part of one would hold a handshake object until the rest comes.
  const size_t hello = (size_t{at(6)} << 16) + (size_t{at(7)} << 8) + at(8);
  if (kHandshakeHeader + hello != record) return ClientHelloCheck::kNotTls;
  return bytes.size() >= kRecordHeader + record ? ClientHelloCheck::kComplete
                                                : ClientHelloCheck::kNeedMore;
}

}  // namespace lockstep
